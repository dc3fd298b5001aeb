import threading
from contextlib import suppress
from time import sleep
from typing import Any

import pytest
from django.db import IntegrityError, connection

from apps.accounts import api_tokens, invitation_links, membership_changes
from apps.accounts.models import ApiToken, AuditEntry, Membership, Role
from apps.accounts.owners import NotOwner
from apps.common.models import AnsweredRequest
from tests import factories
from tests.removal.test_races import somebody_waits

pytestmark = pytest.mark.django_db


def test_the_last_owner_cannot_leave_or_step_down():
    owner = factories.member(Role.OWNER)
    with pytest.raises(membership_changes.LastOwner, match="Make somebody else an owner first"):
        membership_changes.remove(membership=owner, by=owner.user)
    with pytest.raises(membership_changes.LastOwner):
        membership_changes.change_role(membership=owner, role=Role.RESEARCHER, by=owner.user)
    owner.refresh_from_db()
    assert owner.role == Role.OWNER


@pytest.mark.parametrize("becomes", [None, Role.RESEARCHER], ids=["removed", "demoted"])
def test_no_invitation_of_a_former_owner_leads_back_in(becomes: Role | None) -> None:
    owner = factories.member(Role.OWNER)
    other = factories.member(Role.OWNER, of=owner.workspace)
    made, others = (
        invitation_links.invite(workspace=by.workspace, email=f"{by.pk}@example.org", role=Role.OWNER, by=by.user)
        for by in (owner, other)
    )
    if becomes is None:
        membership_changes.remove(membership=owner, by=other.user)
    else:
        membership_changes.change_role(membership=owner, role=becomes, by=other.user)
    assert invitation_links.find(made.secret) is None
    assert invitation_links.find(others.secret) == others.invitation


def test_no_invitation_leads_somebody_back_in_who_was_removed() -> None:
    owner = factories.member(Role.OWNER)
    first, second = (
        invitation_links.invite(workspace=owner.workspace, email=email, role=Role.ANNOTATOR, by=owner.user)
        for email in ("ben@work.example", "Ben@home.example")
    )
    ben = factories.member(email="ben@home.example").user
    joined = invitation_links.accept(invitation=first.invitation, user=ben)  # opened the link of the other address
    membership_changes.remove(membership=joined, by=owner.user)
    assert invitation_links.find(second.secret) is None


def test_an_owner_may_leave_when_there_is_another():
    owner = factories.member(Role.OWNER)
    factories.member(Role.OWNER, of=owner.workspace)
    membership_changes.remove(membership=owner, by=owner.user)
    assert Membership.objects.filter(workspace=owner.workspace).count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_owners_who_remove_each_other_at_once_leave_one_owner():
    first = factories.member(Role.OWNER)
    second = factories.member(Role.OWNER, of=first.workspace)
    ready = threading.Barrier(2)
    refused: list[bool] = []

    def remove(target, by):
        ready.wait()
        try:
            membership_changes.remove(membership=target, by=by.user)
            refused.append(False)
        except (membership_changes.LastOwner, NotOwner):
            refused.append(True)
        finally:
            connection.close()

    threads = [threading.Thread(target=remove, args=pair) for pair in ((first, second), (second, first))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(refused) == [False, True]
    assert Membership.objects.filter(workspace=first.workspace, role=Role.OWNER).count() == 1


@pytest.mark.parametrize("becomes", [None, Role.RESEARCHER], ids=["removed", "demoted"])
def test_a_request_that_waited_until_its_sender_was_no_owner_changes_nothing(becomes: Role | None) -> None:
    owner = factories.member(Role.OWNER)
    other = factories.member(Role.OWNER, of=owner.workspace)
    ben = factories.member(of=owner.workspace)
    if becomes is None:
        membership_changes.remove(membership=owner, by=other.user)
    else:
        membership_changes.change_role(membership=owner, role=becomes, by=other.user)
    with pytest.raises(NotOwner):
        invitation_links.invite(workspace=owner.workspace, email="a@example.org", role=Role.OWNER, by=owner.user)
    with pytest.raises(NotOwner):
        membership_changes.change_role(membership=ben, role=Role.OWNER, by=owner.user)
    with pytest.raises(NotOwner):
        membership_changes.remove(membership=ben, by=owner.user)


@pytest.mark.django_db(transaction=True)
def test_whoever_is_removed_cannot_hold_it_up_with_rows_of_their_own() -> None:
    """A request by the removed person adds a row between the deletion of the other rows and that of the membership."""
    owner = factories.member(Role.OWNER)
    ben = factories.member(of=owner.workspace)

    def ask() -> None:
        with suppress(IntegrityError):
            AnsweredRequest.objects.create(membership=ben, key="k", fingerprint="", status=201, body="")
        connection.close()

    asking = threading.Thread(target=ask)

    def asking_first(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith('DELETE FROM "accounts_membership"'):
            asking.start()
            while asking.is_alive() and not somebody_waits():
                sleep(0.01)
        return execute(sql, *rest)

    with connection.execute_wrapper(asking_first):
        membership_changes.remove(membership=ben, by=owner.user)
    asking.join()
    assert not Membership.objects.filter(pk=ben.pk).exists()
    assert not AnsweredRequest.objects.exists()


def test_removing_somebody_ends_their_tokens_and_says_who_did_it():
    owner = factories.member(Role.OWNER)
    ben = factories.member(of=owner.workspace, name="Ben")
    api_tokens.issue_token(membership=ben, name="laptop")
    membership_changes.remove(membership=ben, by=owner.user)
    assert not ApiToken.objects.exists()
    entry = AuditEntry.objects.latest("pk")
    assert (entry.actor, entry.action, entry.subject) == (owner.user, "removed", "Ben")


def test_a_changed_role_is_written_down_with_both_roles():
    owner = factories.member(Role.OWNER)
    ben = factories.member(Role.ANNOTATOR, of=owner.workspace, name="Ben")
    membership_changes.change_role(membership=ben, role=Role.REVIEWER, by=owner.user)
    ben.refresh_from_db()
    assert ben.role == Role.REVIEWER
    assert AuditEntry.objects.get().subject == "Ben from Annotator to Reviewer"


def test_who_founds_a_workspace_owns_it_and_names_may_repeat():
    user = factories.user()
    first = membership_changes.found_workspace(name="Shop agents", owner=user)
    second = membership_changes.found_workspace(name="Shop agents", owner=user)
    assert first.role == second.role == Role.OWNER
    assert first.workspace.slug == "shop-agents"
    assert second.workspace.slug.startswith("shop-agents-")


def test_a_name_without_latin_letters_makes_a_workspace_too():
    assert membership_changes.found_workspace(name="店", owner=factories.user()).workspace.slug == "workspace"


def test_who_was_removed_meanwhile_is_told_of_and_nothing_breaks():
    owner = factories.member(Role.OWNER)
    ben = factories.member(Role.ANNOTATOR, of=owner.workspace, name="Ben")
    in_another_tab = Membership.objects.get(pk=ben.pk)
    membership_changes.remove(membership=ben, by=owner.user)
    with pytest.raises(membership_changes.NoMember, match=r"Ben is not in .* any more"):
        membership_changes.remove(membership=in_another_tab, by=owner.user)
    with pytest.raises(membership_changes.NoMember):
        membership_changes.change_role(membership=in_another_tab, role=Role.REVIEWER, by=owner.user)


def test_workspaces_of_one_name_are_two():
    owner = factories.member(Role.OWNER)
    names = {membership_changes.found_workspace(name="Shop agents", owner=owner.user).workspace.slug for _ in range(2)}
    assert len(names) == 2
