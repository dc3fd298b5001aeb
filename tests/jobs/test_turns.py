"""Many jobs of one workspace don't occupy the workers needed by others: every task follows some rule for that."""

from __future__ import annotations

import pytest
from django.core.cache import cache

from apps.accounts.models import Role, Workspace
from apps.annotation.models import Continuation
from apps.common.broker import route_of
from apps.jobs import lifecycle
from apps.jobs.models import Failure, Job, Phase, kind_of_job, kinds
from apps.jobs.turns import in_turn, takes_turns
from apps.jobs.waits import wait_of
from apps.trajectories.models import RolloutBatch
from tests import factories
from tests.jobs.builders import MAKERS
from workers import tasks
from workers.app import app

pytestmark = pytest.mark.django_db

OWN_RULES = {
    "queues.fill": "one queue of a workspace at a time is filled or measured, and the rest of it afterward (tests/annotation/queues/test_items.py)",
    "quality.measure": "one queue of a workspace at a time is filled or measured (tests/annotation/views/test_quality.py)",
    "judging.run_slice": "two judges of a workspace at a time, a minute each (tests/annotation/judges/test_judge_job.py)",
    "webhooks.deliver": "one destination of a workspace at a time, twenty seconds each (tests/webhooks/test_delivery.py)",
    "runners.open_rollouts": "a few statements, only for what is resumed: the episodes are played elsewhere",
    "runners.count": "a few statements for each batch that has changed, at most twice in two seconds",
    "preflight.check": "two unanswered questions of a workspace at a time (tests/training/test_launch.py)",
}
"""Tasks for a single workspace that aren't jobs in a lane or by turns, and how they leave workers to others."""
FOR_ALL = {
    "transfer.expire",
    "removal.apply_rules",
    "jobs.recover",
    "leases.expire",
    "publishing.restore_adapters",
    "experiments.advance_all",
    "traces.settle",
    "traces.delete_spans",
    "sessions.clear",
    "webhooks.delete_old",
    "uploads.delete_abandoned",
    "idempotency_keys.clear",
    "demo.advance",
}
"""Periodic tasks that serve all workspaces."""


def served_continuation(of: Workspace) -> Job:
    made = MAKERS["continuations"](of)
    Continuation.objects.filter(pk=made.pk).update(policy=factories.served_policy(of=of))
    return Continuation.objects.get(pk=made.pk)


def test_each_task_has_a_rule() -> None:
    app.loader.import_default_modules()
    of_jobs = set()
    for make in (*MAKERS.values(), served_continuation):
        job = make(factories.workspace())
        kind = kind_of_job(job)
        rows = kind.rows_by_turns | kind.rows_in_lane if kind.lane else kind.rows_by_turns
        if rows.filter(pk=job.pk).exists():
            of_jobs.add(kind.task(job))
    known = {name for name in app.tasks if not name.startswith("celery.")}
    assert of_jobs | OWN_RULES.keys() | FOR_ALL == known
    assert len(of_jobs) + len(OWN_RULES) + len(FOR_ALL) == len(known)


BY_TURNS = ("training_runs", "rollouts", "continuations", "judges")


def claim(job: Job) -> Job | None:
    """The job that a worker claims on receiving the message for this one."""
    return lifecycle.claim_in_turn(kind_of_job(job), job.pk, worker="here:1")


def waiting_jobs(name: str, *, of: Workspace, count: int) -> list[Job]:
    return [MAKERS[name](of) for _ in range(count)]


@pytest.mark.parametrize("name", BY_TURNS)
def test_workspaces_take_turns(name: str) -> None:
    one, two = factories.workspace(), factories.workspace()
    ones, twos = waiting_jobs(name, of=one, count=4), waiting_jobs(name, of=two, count=2)
    claimed = []
    for message in [*ones, *twos]:  # in the order of queuing
        job = claim(message)
        assert job is not None
        lifecycle.fail(job, Failure("config", "It ended."))
        claimed.append(job.pk)
    assert claimed == [job.pk for job in (ones[0], twos[0], ones[1], twos[1], ones[2], ones[3])]


def test_a_free_worker_goes_to_the_workspace_that_occupies_fewest() -> None:
    one, two = factories.workspace(), factories.workspace()
    ones, twos = waiting_jobs("training_runs", of=one, count=3), waiting_jobs("training_runs", of=two, count=1)
    assert claim(ones[0]) == ones[0]
    assert claim(ones[1]) == twos[0]
    lifecycle.fail(kind_of_job(twos[0]).rows.get(pk=twos[0].pk), Failure("config", "It ended."))
    (later,) = waiting_jobs("training_runs", of=two, count=1)
    assert claim(ones[2]) == later  # although its workspace had the last turn
    assert claim(twos[0]) == ones[1]


def test_jobs_are_by_turns_where_their_task_goes() -> None:
    for make in (*MAKERS.values(), served_continuation):
        job = make(factories.workspace())
        kind = kind_of_job(job)
        assert takes_turns(job) == kind.rows_by_turns.filter(pk=job.pk).exists()
    assert {kind.name for kind in kinds() if kind.turns_at} == set(BY_TURNS) == set(tasks.BY_TURNS)


def test_kinds_that_share_workers_share_turns() -> None:
    one, two = factories.workspace(), factories.workspace()
    batches, (scores,) = waiting_jobs("rollouts", of=one, count=4), waiting_jobs("judges", of=two, count=1)
    messages, claimed = [*batches, scores], []
    for message in messages:
        job = claim(message)
        assert job is not None
        lifecycle.fail(job, Failure("config", "It ended."))
        claimed.append(job.pk)
    assert claimed == [job.pk for job in (batches[0], scores, *batches[1:])]


def test_what_people_wait_for_goes_first_but_leaves_turns_to_other_workspaces() -> None:
    one, two = factories.workspace(), factories.workspace()
    batches = waiting_jobs("rollouts", of=two, count=2)
    own = waiting_jobs("rollouts", of=one, count=1)
    urgent = waiting_jobs("continuations", of=one, count=4)
    expected = [urgent[0], batches[0], urgent[1], batches[1], urgent[2], urgent[3], *own]
    assert [job.pk for job in in_turn([*batches, *own, *urgent])] == [job.pk for job in expected]
    claimed = []
    for message in [*urgent, *batches, *own]:
        job = claim(message)
        assert job is not None
        lifecycle.fail(job, Failure("config", "It ended."))
        claimed.append(job.pk)
    assert claimed == [job.pk for job in expected]


def test_a_worker_that_comes_too_late_for_a_job_takes_another(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = factories.workspace(), factories.workspace()
    (ones,), (twos,) = (waiting_jobs("training_runs", of=workspace, count=1) for workspace in (one, two))
    read = lifecycle.job_in_turn

    def job_in_turn(worker_queue: str) -> Job | None:
        job = read(worker_queue)
        if job == ones:
            lifecycle.claim(kind_of_job(ones), ones.pk, worker="there:1")
        return job

    monkeypatch.setattr(lifecycle, "job_in_turn", job_in_turn)
    assert claim(ones) == twos


@pytest.mark.parametrize("name", BY_TURNS)
def test_a_job_that_can_not_be_claimed_keeps_no_other_workspace_waiting(name: str) -> None:
    one, two = factories.workspace(), factories.workspace()
    (ones,), (twos,) = (waiting_jobs(name, of=workspace, count=1) for workspace in (one, two))
    kind_of_job(ones).rows.filter(pk=ones.pk).update(attempt=2**31 - 1)
    assert claim(twos) == twos
    assert kind_of_job(ones).rows.get(pk=ones.pk).phase == Phase.FAILED


def test_a_worker_of_several_queues_alternates() -> None:
    assert {route_of(task).priority for task in ("training.run", "rollouts.run", "scoring.run_slice")} == {3}


def test_a_message_for_what_is_over_starts_another_that_waits() -> None:
    here = factories.workspace()
    over, waiting = waiting_jobs("training_runs", of=here, count=2)
    lifecycle.cancel(over, by=None)
    assert claim(over) == waiting
    assert claim(waiting) is None


def test_runners_rollouts_wait_for_no_turn() -> None:
    one, two = factories.workspace(), factories.workspace()
    waiting_jobs("rollouts", of=one, count=1)
    runners = RolloutBatch.objects.create(
        workspace=two, policy=factories.policy(of=two), environment="office", config={"played_by": "runners"}
    )
    cache.set(f"turn:generate:{two.pk}", 2e9)
    assert lifecycle.claim(kind_of_job(runners), runners.pk) == runners


def test_the_page_counts_who_goes_first() -> None:
    one, two = factories.workspace(), factories.workspace()
    ones, twos = waiting_jobs("training_runs", of=one, count=5), waiting_jobs("training_runs", of=two, count=2)
    waits = [wait_of(job, role=Role.OWNER) for job in (*ones, *twos)]
    assert [wait.ahead for wait in waits if wait] == [0, 2, 4, 5, 6, 1, 3]
    assert claim(twos[0]) == ones[0]
    waits = [wait_of(job, role=Role.OWNER) for job in (*ones[1:], *twos)]
    assert [wait.ahead for wait in waits if wait] == [2, 3, 4, 5, 0, 1]
