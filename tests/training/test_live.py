"""Who may watch a run, and that updates match what the page would render."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse

from apps.accounts import membership_changes
from apps.accounts.models import Membership, Role
from apps.asgi import application
from apps.common import live as common_live
from apps.training import live
from apps.training.live import RolloutsConsumer, RunConsumer
from apps.training.models import Run
from tests import factories
from tests.training.test_pages import batch_of

pytestmark = pytest.mark.django_db


def group_for(consumer, member, **kwargs):
    consumer.scope = {"url_route": {"kwargs": kwargs}}
    return consumer.find_group(member)


def test_only_researchers_of_the_workspace_may_watch():
    member = factories.member()
    run, batch = factories.run(of=member.workspace), batch_of(member)
    assert group_for(RunConsumer(), member, run_id=run.pk) == f"run.{run.pk}"
    assert group_for(RolloutsConsumer(), member, batch_id=batch.pk) == f"rollouts.{batch.pk}"
    for stranger in (factories.member(), factories.member(Role.REVIEWER, of=member.workspace)):
        assert group_for(RunConsumer(), stranger, run_id=run.pk) is None
        assert group_for(RolloutsConsumer(), stranger, batch_id=batch.pk) is None


def test_a_state_is_sent_to_the_runs_group(monkeypatch):
    sent = []
    monkeypatch.setattr(live, "send", lambda group, html: sent.append((group, html)))
    run = factories.run(state="running", step=12, total_steps=40)
    live.show(run.pk)
    [(group, html)] = sent
    assert group == f"run.{run.pk}"
    assert 'id="run-status" data-step="12"' in html
    assert "Step 12 of 40" in html


def test_a_batchs_state_is_sent_to_its_group(monkeypatch):
    sent = []
    monkeypatch.setattr(live, "send", lambda group, html: sent.append((group, html)))
    batch = batch_of(factories.member())
    live.show_rollouts(batch.pk)
    [(group, html)] = sent
    assert group == f"rollouts.{batch.pk}"
    assert 'id="rollouts-state"' in html


def removed(member: Membership, client: Client) -> None:
    membership_changes.remove(membership=member, by=member.user)


def demoted(member: Membership, client: Client) -> None:
    membership_changes.change_role(
        membership=member, by=factories.member(Role.OWNER, of=member.workspace).user, role=Role.REVIEWER
    )


def promoted(member: Membership, client: Client) -> None:
    membership_changes.change_role(
        membership=member, by=factories.member(Role.OWNER, of=member.workspace).user, role=Role.OWNER
    )


def signed_out(member: Membership, client: Client) -> None:
    client.post(reverse("accounts:sign_out"))


def signed_out_elsewhere(member: Membership, client: Client) -> None:
    other = Client()
    other.force_login(member.user)
    other.post(reverse("accounts:sign_out"))


def changed_password(member: Membership, client: Client) -> None:
    sent = {"current": "pass-phrase-1", "password": "another horse battery"}
    other = Client()
    other.force_login(member.user)
    assert other.post(reverse("accounts:change_password"), sent).status_code == 302


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (removed, 4404),
        (demoted, 4404),
        (promoted, None),
        (signed_out, 4401),
        (signed_out_elsewhere, None),
        (changed_password, 4401),
    ],
)
def test_who_may_watch_no_more_is_cut_off_at_once(
    change: Callable[[Membership, Client], None], code: int | None
) -> None:
    owner = factories.member(Role.OWNER)
    member, run = factories.member(of=owner.workspace), factories.run(of=owner.workspace)
    client = Client()
    client.force_login(member.user)
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    fresh = Membership.objects.select_related("user", "workspace").get(pk=member.pk)
    assert asyncio.run(watched(session, run, partial(change, fresh, client))) == code


@pytest.mark.django_db(transaction=True)
def test_who_is_removed_while_they_connect_is_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    member = factories.member()
    run = factories.run(of=member.workspace)
    find_group = RunConsumer.find_group

    def found_and_removed(consumer: RunConsumer, member: Membership) -> str | None:
        group = find_group(consumer, member)
        Membership.objects.filter(pk=member.pk).delete()
        return group

    monkeypatch.setattr(RunConsumer, "find_group", found_and_removed)
    assert asyncio.run(answer_to(session_of(member), run)) == {"type": "websocket.close", "code": 4404}


async def answer_to(session: str, run: Run) -> dict[str, Any]:
    """The first message that a connection receives."""
    socket = connection_to(session, run)
    await socket.send_input({"type": "websocket.connect"})
    answer: dict[str, Any] = await socket.receive_output(timeout=5)
    await socket.send_input({"type": "websocket.disconnect", "code": 1006})
    await socket.wait()
    return {name: answer[name] for name in ("type", "code")}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("seconds", "code"), [(0.0, 4401), (3600.0, None)])
def test_a_session_that_ended_unannounced_is_noticed_in_time(
    seconds: float, code: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common_live, "CHECK_EVERY_SECONDS", seconds)
    member = factories.member()
    run = factories.run(of=member.workspace)
    assert asyncio.run(watched(session_of(member), run, Session.objects.all().delete)) == code


def session_of(member: Membership) -> str:
    client = Client()
    client.force_login(member.user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def connection_to(session: str, run: Run) -> ApplicationCommunicator:
    headers = [
        (b"host", b"testserver"),
        (b"origin", b"http://testserver"),
        (b"cookie", f"sessionid={session}".encode()),
    ]
    scope = {"type": "websocket", "path": f"/ws/runs/{run.pk}/", "query_string": b"", "headers": headers}
    return ApplicationCommunicator(application, scope)


async def watched(session: str, run: Run, change: Callable[[], None]) -> int | None:
    """The code with which a connection is closed after `change`; None if it stays open and receives the next update."""
    socket = connection_to(session, run)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(timeout=5))["type"] == "websocket.accept"
    await sync_to_async(change)()
    await sync_to_async(live.show)(run.pk)
    answer = await socket.receive_output(timeout=5)
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait()
    return answer.get("code")
