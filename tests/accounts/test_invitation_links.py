import threading
from datetime import timedelta
from time import sleep

import pytest
from django.db import connection
from django.utils.timezone import now

from apps.accounts import invitation_links
from apps.accounts.models import AuditEntry, Invitation, Membership, Role, User
from tests import factories

pytestmark = pytest.mark.django_db


def invite(owner, email="ben@example.org", role=Role.REVIEWER):
    return invitation_links.invite(workspace=owner.workspace, email=email, role=role, by=owner.user)


def test_the_secret_is_not_stored(owner):
    made = invite(owner)
    stored = Invitation.objects.values().get()
    assert made.secret not in str(stored)
    assert len(stored["digest"]) == 64  # SHA-256 in hex
    assert invitation_links.find(made.secret) == made.invitation


def test_an_invitation_ends_after_a_week(owner):
    made = invite(owner)
    assert made.invitation.expires_at - now() == pytest.approx(timedelta(days=7), abs=timedelta(seconds=10))
    Invitation.objects.update(expires_at=now())
    assert invitation_links.find(made.secret) is None


def test_a_new_person_gets_an_account_with_the_invited_address_and_role(owner):
    membership = invitation_links.accept_as_new(
        invitation=invite(owner).invitation, name="Ben", password="a-long-password"
    )
    assert (membership.user.email, membership.role) == ("ben@example.org", Role.REVIEWER)
    assert membership.user.check_password("a-long-password")
    assert membership.workspace == owner.workspace


def test_a_link_works_once(owner):
    invitation = invite(owner).invitation
    invitation_links.accept(invitation=invitation, user=factories.user())
    with pytest.raises(invitation_links.InvitationGone):
        invitation_links.accept(invitation=invitation, user=factories.user())
    with pytest.raises(invitation_links.InvitationGone):
        invitation_links.accept_as_new(invitation=invitation, name="Late", password="a-long-password")
    assert not User.objects.filter(name="Late").exists()  # the refusal rolls back the account


@pytest.mark.django_db(transaction=True)
def test_of_two_people_with_one_link_at_once_one_joins(owner):
    invitation = invite(owner).invitation
    people = [factories.user(), factories.user()]
    ready = threading.Barrier(2)
    outcomes: list[str] = []

    def join(user):
        ready.wait()
        try:
            invitation_links.accept(invitation=invitation, user=user)
            outcomes.append("joined")
        except invitation_links.InvitationGone:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=join, args=[user]) for user in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["joined", "refused"]
    assert Membership.objects.filter(workspace=owner.workspace).count() == 2  # the owner and one of the two


def test_a_member_is_not_invited_again(owner):
    factories.member(of=owner.workspace, email="ben@example.org")
    with pytest.raises(invitation_links.AlreadyMember):
        invite(owner, email="BEN@example.org")


def test_a_second_invitation_of_the_same_address_replaces_the_first(owner):
    first, second = invite(owner), invite(owner, email="Ben@example.org")
    assert invitation_links.find(first.secret) is None
    assert invitation_links.find(second.secret) == second.invitation


@pytest.mark.django_db(transaction=True)
def test_of_two_invitations_of_one_address_at_once_one_link_works(owner, monkeypatch):
    """Both owners revoke open invitations before either creates one, unless the second waits for the first."""
    secret_of = invitation_links.secrets.token_urlsafe
    monkeypatch.setattr(invitation_links.secrets, "token_urlsafe", lambda length: (sleep(0.3), secret_of(length))[1])
    ready = threading.Barrier(2)
    secrets: list[str] = []

    def ask():
        ready.wait()
        try:
            secrets.append(invite(owner).secret)
        finally:
            connection.close()

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [bool(invitation_links.find(secret)) for secret in secrets] == [False, True]


def test_a_revoked_invitation_cannot_be_used_or_revoked_again(owner):
    made = invite(owner)
    invitation_links.revoke(invitation=made.invitation, by=owner.user)
    assert invitation_links.find(made.secret) is None
    with pytest.raises(invitation_links.InvitationGone):
        invitation_links.revoke(invitation=made.invitation, by=owner.user)


def test_joining_twice_is_refused_and_leaves_the_link_for_another(owner):
    made = invite(owner)
    with pytest.raises(invitation_links.AlreadyMember):
        invitation_links.accept(invitation=made.invitation, user=owner.user)
    assert invitation_links.find(made.secret) == made.invitation


def test_joining_by_two_links_at_once_is_joining_once(owner, monkeypatch):
    first, second = invite(owner), invite(owner, email="other@example.org")
    user = factories.user()
    monkeypatch.setattr(type(Membership.objects.all()), "exists", lambda rows: False)  # the other one isn't stored yet
    invitation_links.accept(invitation=first.invitation, user=user)
    with pytest.raises(invitation_links.AlreadyMember):
        invitation_links.accept(invitation=second.invitation, user=user)
    assert invitation_links.find(second.secret) == second.invitation


def test_an_address_with_an_account_signs_in_instead(owner):
    factories.user(email="BEN@example.org")
    with pytest.raises(invitation_links.AccountExists):
        invitation_links.accept_as_new(invitation=invite(owner).invitation, name="Ben", password="a-long-password")
    assert Invitation.objects.open().count() == 1


def test_who_invited_whom_is_written_down(owner):
    made = invite(owner)
    invitation_links.accept_as_new(invitation=made.invitation, name="Ben", password="a-long-password")
    entries = AuditEntry.objects.order_by("pk").values_list("actor__name", "action", "subject")
    assert list(entries) == [
        (owner.user.name, "invited", "ben@example.org as Reviewer"),
        ("Ben", "joined as", "Reviewer"),
    ]
