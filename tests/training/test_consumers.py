"""Who may watch a run, and that a state sent is the one the page would render."""

import pytest

from apps.accounts.models import Role
from apps.training import live
from apps.training.consumers import RolloutsConsumer, RunConsumer
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
