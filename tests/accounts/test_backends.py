"""The session's user is loaded together with their membership."""

import pytest

from apps.accounts.backends import PeopleBackend
from apps.accounts.models import Membership, Role, User
from tests import factories

pytestmark = pytest.mark.django_db


def test_a_person_and_their_memberships_take_one_query(django_assert_num_queries):
    first = factories.member(Role.ANNOTATOR)
    second = Membership.objects.create(user=first.user, workspace=factories.workspace(), role=Role.OWNER)
    with django_assert_num_queries(1):
        user = PeopleBackend().get_user(first.user.pk)
        assert user == first.user
        assert user.own_memberships == [first, second]
        assert [member.workspace for member in user.own_memberships] == [first.workspace, second.workspace]
        assert all(member.user is user for member in user.own_memberships)


def test_who_is_in_no_workspace_is_somebody_all_the_same():
    member = factories.member(Role.ANNOTATOR)
    member.delete()
    user = PeopleBackend().get_user(member.user_id)
    assert user == member.user
    assert user.own_memberships == []


def test_who_was_shut_out_is_nobody():
    member = factories.member(Role.OWNER)
    User.objects.filter(pk=member.user_id).update(is_active=False)
    assert PeopleBackend().get_user(member.user_id) is None


def test_who_lost_their_membership_finds_nothing_at_the_next_request(client):
    member = factories.member(Role.ANNOTATOR)
    client.force_login(member.user)
    assert client.get("/queues/").status_code == 200
    member.delete()
    assert client.get("/queues/").status_code == 404
