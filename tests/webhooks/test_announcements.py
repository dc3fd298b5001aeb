"""Every change of state that has an event is announced in its own transaction."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.cache import cache
from django.db import transaction

from apps.accounts.models import Membership, Role
from apps.annotation.comments.actions import comment_on
from apps.annotation.queues.queue_lifecycle import close_queue
from apps.arena.lifecycle import stop_experiment
from apps.arena.models import Experiment
from apps.common.broker import app
from apps.gateway import sessions
from apps.jobs import lifecycle
from apps.jobs.models import Failure, Job, Kind, kinds
from apps.policies.promotions import promote
from apps.policies.publication import PUBLICATIONS
from apps.training.launch import RUNS
from apps.webhooks.destinations import NewDestination
from apps.webhooks.events import EventType
from apps.webhooks.models import Delivery
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _destination(register: Callable[..., NewDestination]) -> None:
    register()


def stored_events() -> list[tuple[str, str]]:
    return [(row.type, json.loads(row.body)["data"]["name"]) for row in Delivery.objects.order_by("pk")]


def held(kind: Kind[Any], job: Job) -> Any:
    claimed = lifecycle.claim(kind, job.pk)
    assert claimed is not None
    return claimed


def test_a_training_run_that_finishes_and_one_that_fails(researcher: Membership) -> None:
    lifecycle.finish(held(RUNS, factories.run(of=researcher.workspace, name="dpo-1")))
    lifecycle.fail(held(RUNS, factories.run(of=researcher.workspace, name="dpo-2")), Failure("x", "no memory"))
    assert stored_events() == [("training_run.finished", "dpo-1"), ("training_run.failed", "dpo-2")]


def test_a_job_whose_workers_all_vanish_is_told_of_once(researcher: Membership) -> None:
    run = factories.run(of=researcher.workspace, name="dpo-3")
    for _ in range(run.MAX_LOSSES):
        lifecycle.lose(held(RUNS, run), "It fell silent")
    assert stored_events() == [("training_run.failed", "dpo-3")]


def test_a_job_that_no_worker_could_begin_is_told_of(researcher: Membership) -> None:
    run = factories.run(of=researcher.workspace, name="dpo-4")
    RUNS.rows.update(attempt=2**31 - 1)
    assert lifecycle.claim_in_turn(RUNS, run.pk) is None
    assert stored_events() == [("training_run.failed", "dpo-4")]


def test_what_is_taken_back_is_not_told_of(researcher: Membership) -> None:
    with transaction.atomic():
        lifecycle.finish(held(RUNS, factories.run(of=researcher.workspace)))
        transaction.set_rollback(True)
    assert stored_events() == []


def test_every_kind_of_job_that_people_wait_for_is_told_of_whether_it_is_done_or_fails() -> None:
    announced = {kind.name: sorted(map(str, kind.webhook_events)) for kind in kinds()}
    both = ["done", "failed"]
    assert announced == {
        "training_runs": both,
        "publications": both,
        "versions": both,
        "imports": both,
        "rollouts": both,
        "judges": [],
        "continuations": [],
        "removals": [],
        "workspace_exports": [],
        "workspace_imports": [],
    }
    assert set(PUBLICATIONS.webhook_events.values()) == {EventType.POLICY_PUBLISHED, EventType.POLICY_NOT_PUBLISHED}


def test_a_session_that_is_finished_and_one_that_is_abandoned(researcher: Membership) -> None:
    task = {"instruction": "Find the \ud800\0 lamp."}
    messages = [{"role": "assistant", "content": "On the shelf."}]
    sessions.finish_session(
        session=factories.session(of=researcher.workspace, messages=messages), success=True, reward=1.0
    )
    sessions.abandon_session(session=factories.session(of=researcher.workspace, task=task))
    (finished, _), abandoned = stored_events()
    assert finished == "session.finished"
    assert abandoned == ("session.abandoned", r"Find the \ud800\x00 lamp.")
    body = json.loads(Delivery.objects.order_by("pk")[0].body)["data"]
    assert (body["success"], body["reward"]) == (True, 1.0)


def test_many_at_once_are_two_messages_to_the_workers(
    researcher: Membership, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(app, "send_task", lambda task, *_, **__: sent.append(task))
    cache.clear()
    with django_capture_on_commit_callbacks(execute=True):
        for _ in range(5):
            sessions.finish_session(session=factories.session(of=researcher.workspace))
    assert len(stored_events()) == 5
    assert sent.count("webhooks.deliver") == 2


def test_a_promotion(researcher: Membership) -> None:
    promote(
        policy=factories.policy(of=researcher.workspace, name="p"), environment="office", by=researcher.user, reason=""
    )
    assert stored_events() == [("policy.promoted", "p is the champion of office")]


def test_a_queue_that_is_closed_once(researcher: Membership) -> None:
    close_queue(queue=factories.queue(of=researcher.workspace, name="pairs"), by=researcher.user)
    assert stored_events() == [("queue.closed", "pairs")]


def test_an_experiment_that_ends(researcher: Membership) -> None:
    here = researcher.workspace
    experiment = Experiment.objects.create(
        workspace=here,
        name="which",
        environment="office",
        policy_a=factories.policy(of=here),
        policy_b=factories.policy(of=here),
        queue=builders.queue(of=here),
        state=Experiment.State.LABELING,
        plan={"rule": {}},
    )
    stop_experiment(experiment=experiment, by=researcher.user)
    assert stored_events() == [("experiment.decided", "which")]


def test_a_mention_without_the_words_of_the_comment(researcher: Membership) -> None:
    ben = factories.member(Role.ANNOTATOR, of=researcher.workspace, name="Ben")
    trajectory = factories.trajectory(of=factories.task(of=researcher.workspace))
    comment_on(trajectory=trajectory, by=researcher, text="@Ben the first one is wrong")
    assert stored_events() == [("comment.mention", f"{researcher.user} mentioned Ben")]
    row = Delivery.objects.get()
    assert json.loads(row.body)["data"]["member"] == ben.user.email
    assert "wrong" not in row.body
