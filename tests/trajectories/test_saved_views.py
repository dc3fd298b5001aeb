"""Saved views: filters under a name, for everyone who may see the list."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.trajectories.filters import Filters
from apps.trajectories.models import SavedView
from apps.trajectories.view_names import MAX_VIEWS, ViewRefused, save_view
from tests import factories

pytestmark = pytest.mark.django_db
LIST = "/trajectories/"


def signed_in(member: Membership) -> Client:
    client = Client()
    client.force_login(member.user)
    return client


@pytest.fixture
def reviewer() -> Membership:
    return factories.member(Role.REVIEWER)


def save(member: Membership, name: str, **filters: str) -> SavedView:
    return save_view(workspace=member.workspace, name=name, filters=Filters(**filters), by=member.user)


def test_what_is_saved_is_a_link_that_asks_for_the_same(reviewer):
    client = signed_in(reviewer)
    answer = client.post(reverse("trajectories:save_view"), {"name": "Failures", "query": "outcome=failure&cursor=x"})
    assert answer.headers["Location"] == f"{LIST}?outcome=failure"
    assert f'href="{LIST}?outcome=failure">Failures</a>' in client.get(LIST).content.decode()
    there = client.get(LIST, {"outcome": "failure"}).content.decode()
    assert "Remove the view Failures" in there
    assert "Save view" not in there


def test_the_same_filters_again_are_the_same_view(reviewer):
    first, again = save(reviewer, "a", errors="yes"), save(reviewer, "b", errors="yes")
    assert (first.pk, again.name, SavedView.objects.count()) == (again.pk, "b", 1)


@pytest.mark.parametrize(
    ("name", "filters", "words"),
    [
        ("a", {"errors": "no"}, "another view called “a”"),
        ("b", {}, "no filter"),
        (" ", {"tag": "x"}, "needs a name"),
        ("b\0", {"tag": "x"}, "cannot be stored"),
        ("b", {"q": "東" * 300}, "too long to save"),
    ],
)
def test_refusals_say_what_to_do(reviewer, name, filters, words):
    save(reviewer, "a", errors="yes")
    with pytest.raises(ViewRefused, match=words):
        save(reviewer, name, **filters)


def test_there_is_an_end_to_them(reviewer):
    for number in range(MAX_VIEWS):
        save(reviewer, f"{number}", tag=f"{number}")
    with pytest.raises(ViewRefused, match="Remove one first"):
        save(reviewer, "one more", tag="more")


def test_removing_keeps_the_filters_on_the_page(reviewer):
    view = save(reviewer, "a", errors="yes")
    client, address = signed_in(reviewer), reverse("trajectories:remove_view", args=[view.pk])
    assert client.post(address).headers["Location"] == f"{LIST}?errors=yes"
    assert client.post(address).status_code == 404
    assert not SavedView.objects.exists()


def test_annotators_and_outsiders_find_nothing(reviewer):
    view = save(reviewer, "a", errors="yes")
    for other in (factories.member(Role.ANNOTATOR, of=reviewer.workspace), factories.member(Role.OWNER)):
        client = signed_in(other)
        assert client.post(reverse("trajectories:remove_view", args=[view.pk])).status_code == 404
    assert signed_in(factories.member(Role.ANNOTATOR)).post(reverse("trajectories:save_view")).status_code == 404
    assert SavedView.objects.count() == 1
