"""Retention rules: what they delete, and what they never delete."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils.timezone import now

from apps.accounts.models import AuditEntry, Membership, Role
from apps.annotation.models import Comment, Item
from apps.arena.models import Experiment
from apps.gateway.models import Path, Session
from apps.removal import removal_job, retention
from apps.removal.models import Removal, RetentionRule
from apps.trajectories.models import Trajectory
from tests import factories
from tests.accounts.clients import as_

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(monkeypatch: pytest.MonkeyPatch) -> Membership:
    monkeypatch.setattr("apps.jobs.lifecycle.enqueue", lambda *_: None)
    return factories.member(Role.OWNER, name="Ada")


def attempts(by: Membership, count: int, *, days: int = 100, source: str = "gateway") -> list[Trajectory]:
    task = factories.task(of=by.workspace)
    made = [factories.trajectory(of=task, source=source) for _ in range(count)]
    Trajectory.objects.filter(pk__in=[run.pk for run in made]).update(created_at=now() - timedelta(days=days))
    return made


def applied() -> Removal:
    assert retention.apply_rules() == 1
    removal = Removal.objects.latest("pk")
    assert removal_job.remove(removal.pk)
    removal.refresh_from_db()
    return removal


def rule_of(by: Membership, **fields: Any) -> RetentionRule:
    return RetentionRule.objects.create(workspace=by.workspace, **{"source": "gateway", "days": 90, **fields})


def test_a_rule_lets_go_what_is_old_enough_of_its_source_and_workspace(
    ada: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "A_BATCH", 2)
    old = attempts(ada, 5)
    young, other = attempts(ada, 1, days=80), attempts(ada, 1, source="otlp")
    elsewhere = attempts(factories.member(Role.OWNER), 1)
    rule = rule_of(ada, is_on=True)
    assert retention.would_go(rule) == len(old)
    removal = applied()
    assert (removal.state, removal.thing, removal.removed["trajectories"]) == ("done", "expired", 5)
    assert set(Trajectory.objects.all()) == {*young, *other, *elsewhere}
    entry = AuditEntry.objects.get(action="deleted")
    assert (entry.actor, entry.subject) == (None, "expired trajectories: gateway, 90 days")
    assert retention.apply_rules() == 0  # only once a day


def test_the_gateways_rule_lets_go_of_sessions_that_became_no_trajectory(
    ada: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "A_BATCH", 2)
    others = factories.member(Role.OWNER).workspace
    reply = {"role": "assistant", "content": "Done."}
    old = [factories.session(of=ada.workspace, messages=[reply]) for _ in range(5)]
    young, still_open, with_path = (factories.session(of=ada.workspace, messages=[reply]) for _ in range(3))
    elsewhere = factories.session(of=others, messages=[reply])
    ended = {"state": "abandoned", "ended_at": now() - timedelta(days=100)}
    Session.objects.exclude(pk=still_open.pk).update(**ended)
    Session.objects.filter(pk=young.pk).update(ended_at=now() - timedelta(days=80))
    [trajectory] = attempts(ada, 1, days=1)
    Path.objects.create(session=with_path, leaf=with_path.calls.get(), trajectory=trajectory, is_main=True)
    rule_of(ada, source="otlp", is_on=True)
    assert retention.apply_rules() == 0
    assert retention.would_go(rule_of(ada, is_on=True)) == len(old)
    removal = applied()
    assert removal.removed == {"recorded sessions": len(old), "recorded calls": len(old)}
    assert set(Session.objects.all()) == {young, still_open, with_path, elsewhere}
    assert Trajectory.objects.get() == trajectory


def test_a_rule_keeps_what_anybody_made_use_of(ada: Membership) -> None:
    queued, commented, compared, rolled_out, free = attempts(ada, 5)
    queue = factories.queue(of=ada.workspace, kind="rating")
    Item.objects.create(queue=queue, kind="rating", position=0, task=queued.task, a=queued, overlap=1)
    Comment.objects.create(workspace=ada.workspace, trajectory=commented, by=ada.user, text="Hm.")
    a, b = factories.policy(of=ada.workspace), factories.policy(of=ada.workspace)
    batch = a.rollouts.create(workspace=ada.workspace, environment="office", state="done")
    Trajectory.objects.filter(pk=rolled_out.pk).update(rollout_batch=batch)
    Experiment.objects.create(
        workspace=ada.workspace,
        name="Which?",
        environment="office",
        policy_a=a,
        policy_b=b,
        rollouts_b=batch,
        recorded_a=[compared.pk],
    )
    rule = rule_of(ada, is_on=True)
    assert list(retention.expired(rule)) == [free]
    applied()
    assert set(Trajectory.objects.all()) == {queued, commented, compared, rolled_out}


def test_what_something_else_rests_on_is_passed_over_and_keeps_no_other(ada: Membership) -> None:
    first, continued, last = attempts(ada, 3)
    policy = factories.policy(of=ada.workspace)
    continued.continuations.create(workspace=ada.workspace, index=0, policy=policy, count=1, state="running")
    rule_of(ada, is_on=True)
    removal = applied()
    assert (removal.state, removal.removed["trajectories"]) == ("done", 2)
    assert list(Trajectory.objects.all()) == [continued]
    assert {first, last}.isdisjoint(Trajectory.objects.all())


def test_a_rule_that_is_off_or_was_turned_off_meanwhile_lets_nothing_go(ada: Membership) -> None:
    attempts(ada, 1)
    rule = rule_of(ada)
    assert retention.apply_rules() == 0
    retention.change_rule(rule=rule, by=ada, is_on=True)
    assert retention.apply_rules() == 1
    retention.change_rule(rule=rule, by=ada, is_on=False)
    removal_job.remove(Removal.objects.get().pk)
    assert Trajectory.objects.count() == 1


def test_owners_make_turn_on_and_remove_a_rule_on_the_page(ada: Membership) -> None:
    attempts(ada, 2)
    client = as_(ada)
    assert client.post("/settings/retention/", {"source": "nothing", "days": 90}).status_code == 422
    assert client.post("/settings/retention/", {"source": "gateway", "days": 90}).status_code == 302
    assert client.post("/settings/retention/", {"source": "gateway", "days": 30}).status_code == 422
    rule = RetentionRule.objects.get()
    page = client.get("/settings/retention/").text
    assert (rule.is_on, "Currently affected: 2." in page) == (False, True)
    client.post(f"/settings/retention/{rule.pk}/turn/", {"is_on": "on"})
    rule.refresh_from_db()
    assert rule.is_on
    client.post(f"/settings/retention/{rule.pk}/remove/")
    assert not RetentionRule.objects.exists()
    assert [entry.action for entry in AuditEntry.objects.order_by("pk")] == [
        *("made retention rule", "changed retention rule", "removed retention rule"),
    ]


def test_over_rest_a_rule_is_off_first_and_says_how_much_would_go(ada: Membership) -> None:
    attempts(ada, 2)
    client = Client(headers={"Authorization": f"Bearer {factories.token(ada)}"})

    def send(address: str, **fields: object) -> Any:
        return client.post(f"/api/v1/retention-rules{address}", fields, content_type="application/json")

    made = send("", source="gateway", days=90).json()
    assert (made["is_on"], made["would_go"]) == (False, 2)
    assert list(send("", source="gateway", days=90).json()["fields"]) == ["source"]
    assert list(send("", source="gateway", days=0).json()["fields"]) == ["days"]
    changed = send(f"/{made['id']}/change", days=120, is_on=True).json()
    assert (changed["days"], changed["is_on"], changed["would_go"]) == (120, True, 0)
    assert [row["id"] for row in client.get("/api/v1/retention-rules").json()["results"]] == [made["id"]]
    assert send(f"/{made['id']}/remove").status_code == 200
    assert client.get(f"/api/v1/retention-rules/{made['id']}").status_code == 404
