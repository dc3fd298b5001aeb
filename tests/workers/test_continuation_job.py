"""A policy takes over in the middle of a trajectory, with the real trainer."""

from uuid import UUID

import pytest

from apps.annotation.desk import continuations
from apps.annotation.desk.continuations import CONTINUATIONS
from apps.annotation.kinds import corrections
from apps.annotation.kinds.questions import Alternatives
from apps.annotation.models import Continuation
from apps.annotation.refusals import CannotContinue
from apps.jobs import lifecycle
from apps.jobs.models import JobState
from apps.trajectories.models import Step, Trajectory
from contract.events import Progress, StampedEvent
from tests import factories
from tests.workers.served_policies import office_run, policy_on, served_model
from workers.app import app
from workers.bridge.continuation_job import ContinuationJob
from workers.bridge.supervisor import supervise

pytestmark = pytest.mark.django_db
SAY = {"role": "assistant", "content": "I need to ask first."}


@pytest.fixture
def run() -> Trajectory:
    return office_run(of=factories.workspace())


def work_on(continuation: Continuation) -> Continuation:
    taken = lifecycle.claim(CONTINUATIONS, continuation.pk)
    assert taken is not None
    supervise(ContinuationJob(taken))
    continuation.refresh_from_db()
    return continuation


def test_a_policy_is_sampled_at_a_step_once_and_its_different_actions_are_kept(run):
    with served_model() as server:
        asks = Alternatives(policy_on(server, of=run.workspace).pk, count=4, temperature=0.7)
        continuation = continuations.sample_actions(trajectory=run, index=1, asks=asks)
        assert continuations.sample_actions(trajectory=run, index=1, asks=asks) == continuation
        done = work_on(continuation)
    assert (done.state, done.done, done.error) == (JobState.DONE, 4, "")
    assert sorted(message["content"] for message in done.messages) == ["It cannot be done.", "It is done."]
    first, second = Step.objects.filter(trajectory=run, index__lt=2).order_by("index")
    heard = [message["content"] for message in server.requests[0]["messages"]]
    messages = [*first.context, first.message, *second.context]
    assert heard == [message["content"] for message in messages]  # the chat up to that step, and nothing after it
    assert {request["temperature"] for request in server.requests} == {0.7}
    assert corrections.sampled_by(run, 1, done.messages[0]) == asks.policy


def test_a_better_action_is_done_and_the_policy_goes_on_from_there(run):
    with served_model() as server:
        asks = Alternatives(policy_on(server, of=run.workspace).pk)
        step = Step.objects.get(trajectory=run, index=0)
        done = work_on(continuations.continue_from_action(trajectory=run, index=1, action=step.message, asks=asks))
    assert (done.state, done.error) == (JobState.DONE, "")
    branch = done.branch
    assert branch is not None
    assert (branch.parent_id, branch.branch_step, branch.policy_id, branch.source) == (run.pk, 1, asks.policy, "branch")
    messages = list(branch.steps.order_by("index").values_list("message", flat=True))
    assert messages[:2] == [step.message, step.message]  # the earlier steps, then the better action
    assert messages[2]["content"] in ("It is done.", "It cannot be done.")
    assert branch.success is False
    assert corrections.branch_after(run, 1, step.message) == branch.pk


def test_a_policy_continues_anew_once_the_branch_was_deleted(run):
    with served_model() as server:
        asks = Alternatives(policy_on(server, of=run.workspace).pk)
        done = work_on(continuations.continue_from_action(trajectory=run, index=0, action=SAY, asks=asks))
        assert continuations.continue_from_action(trajectory=run, index=0, action=SAY, asks=asks) == done
        done.branch.delete()
        again = work_on(continuations.continue_from_action(trajectory=run, index=0, action=SAY, asks=asks))
    assert again.branch is not None


def test_an_action_that_ends_the_run_ends_the_branch(run):
    with served_model() as server:
        asks = Alternatives(policy_on(server, of=run.workspace).pk)
        done = work_on(continuations.continue_from_action(trajectory=run, index=0, action=SAY, asks=asks))
        assert server.requests == []
    assert done.branch.step_count == 1


def test_who_cannot_take_over_is_told_in_words(run):
    script = factories.policy(of=run.workspace)
    elsewhere = factories.policy(kind="model", location="x")
    for policy in (script.pk, elsewhere.pk, UUID(int=1)):
        with pytest.raises(CannotContinue, match="can't act anymore"):
            continuations.sample_actions(trajectory=run, index=0, asks=Alternatives(policy))
    model = Alternatives(factories.policy(of=run.workspace, kind="model", location="x").pk)
    with pytest.raises(CannotContinue, match="There is no step 100"):
        continuations.sample_actions(trajectory=run, index=99, asks=model)
    run.task.environment = "the web"
    with pytest.raises(CannotContinue, match="can't be restored here"):
        continuations.continue_from_action(trajectory=run, index=0, action=SAY, asks=model)


def test_a_run_that_the_environment_cannot_repeat_says_so(run):
    Step.objects.filter(trajectory=run, index=1).update(context=[{"role": "tool", "content": "Something else."}])
    with served_model() as server:
        asks = Alternatives(policy_on(server, of=run.workspace).pk)
        failed = work_on(continuations.continue_from_action(trajectory=run, index=1, action=SAY, asks=asks))
        assert failed.state == JobState.FAILED
        assert "diverges before turn 1" in failed.error
        again = continuations.continue_from_action(trajectory=run, index=1, action=SAY, asks=asks)
    assert again != failed


def test_what_a_dead_worker_held_goes_to_another_and_not_for_ever(run):
    asks = Alternatives(factories.policy(of=run.workspace, kind="model", location="x").pk)
    continuation = continuations.sample_actions(trajectory=run, index=0, asks=asks)
    states = []
    for _ in range(3):
        assert lifecycle.claim(CONTINUATIONS, continuation.pk)
        Continuation.objects.update(leased_until="2020-01-01T00:00Z")
        assert lifecycle.recover(CONTINUATIONS) == [continuation]
        continuation.refresh_from_db()
        states.append(continuation.state)
    assert states == [JobState.WAITING, JobState.WAITING, JobState.FAILED]


def test_answers_before_a_child_dies_are_no_progress_since_the_next_one_starts_over(run):
    asks = Alternatives(factories.policy(of=run.workspace, kind="model", location="x").pk)
    taken = lifecycle.claim(CONTINUATIONS, continuations.sample_actions(trajectory=run, index=0, asks=asks).pk)
    assert taken is not None
    lifecycle.lose(taken, "Its child was killed")
    taken = lifecycle.claim(CONTINUATIONS, taken.pk)
    assert taken is not None
    ContinuationJob(taken).handle_events([StampedEvent(1, 0.0, Progress(step=1, total=4))], 0)
    taken.refresh_from_db()
    assert (taken.done, taken.losses) == (1, 1)


def test_nobody_waits_for_a_served_model_behind_a_training_run(run, monkeypatch, django_capture_on_commit_callbacks):
    sent: list[str] = []
    monkeypatch.setattr(app, "send_task", lambda name, args: sent.append(name))
    app.loader.import_default_modules()
    loaded = factories.policy(of=run.workspace, kind="model", location="x")
    with served_model() as server, django_capture_on_commit_callbacks(execute=True):
        for policy in (loaded, policy_on(server, of=run.workspace)):
            continuations.sample_actions(trajectory=run, index=1, asks=Alternatives(policy.pk))
    assert set(sent) <= set(app.tasks)
    assert [app.amqp.router.route({}, name)["queue"].name for name in sent] == ["generate", "remote"]
