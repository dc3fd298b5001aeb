"""Who may watch a run, and that a state sent is the one the page would render."""

import asyncio

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator

from apps.accounts import membership_changes
from apps.accounts.models import Membership, Role
from apps.training import live
from apps.training.consumers import RolloutsConsumer, RunConsumer
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


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("becomes", [None, Role.REVIEWER, Role.OWNER], ids=["removed", "demoted", "promoted"])
def test_who_may_watch_no_more_is_cut_off_at_once(becomes: Role | None) -> None:
    owner = factories.member(Role.OWNER)
    member, run = factories.member(of=owner.workspace), factories.run(of=owner.workspace)
    assert asyncio.run(watched(member, run, becomes)) == (becomes is not Role.OWNER)


async def watched(member: Membership, run: Run, becomes: Role | None) -> bool:
    """Whether a connection of `member` is closed once they are removed, or have become something else."""
    kwargs = {"run_id": run.pk}
    scope = {"type": "websocket", "path": "/ws/", "member": member, "url_route": {"kwargs": kwargs}}
    socket = ApplicationCommunicator(RunConsumer.as_asgi(), scope)
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(timeout=5))["type"] == "websocket.accept"
    change = {"membership": Membership(pk=member.pk, user=member.user, workspace=member.workspace), "by": member.user}
    if becomes is None:
        await sync_to_async(membership_changes.remove)(**change)
    else:
        await sync_to_async(membership_changes.change_role)(**change, role=becomes)
    await sync_to_async(live.show)(run.pk)
    answer = await socket.receive_output(timeout=5)
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait()
    return bool(answer["type"] == "websocket.close" and answer["code"] == 4404)
