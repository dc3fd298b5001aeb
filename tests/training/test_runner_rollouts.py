"""Rollouts played by runners: episodes are leased as in training runs, and the results belong to the batch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import Membership, Role
from apps.arena import lifecycle as experiments
from apps.arena.models import Experiment
from apps.arena.stopping_rule import StoppingRule
from apps.gateway import sessions
from apps.gateway.models import Session
from apps.jobs import lifecycle
from apps.jobs.models import JobState
from apps.policies.models import Policy
from apps.policies.registration import register_served
from apps.training import episodes, runner_rollouts
from apps.training.models import EpisodeBatch
from apps.training.runner_rollouts import NobodyServes, TooMany, UnknownTasks
from apps.training.task_list import BadTask, read_tasks
from apps.trajectories.models import RolloutBatch
from contract.trajectory import Task
from tests import factories

TASKS = [Task("a", "Say a.", initial_state={"floor": 3}), Task("b", "Say b.")]
TURN = {"role": "assistant", "content": "On the shelf."}


@pytest.fixture
def researcher(db: None) -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def policy(researcher: Membership) -> Policy:
    return served("clerk", researcher)


def served(name: str, member: Membership) -> Policy:
    return register_served(
        workspace=member.workspace, name=name, base_url="http://127.0.0.1:9/v1", model="served", by=member.user
    )


def started(policy: Policy, member: Membership, **changes: Any) -> RolloutBatch:
    facts = {"environment": "talk", "tasks": TASKS, **changes}
    return runner_rollouts.start_runner_rollouts(workspace=member.workspace, policy=policy, by=member.user, **facts)


def leased(member: Membership, **wanted: Any) -> episodes.Lease:
    lease = episodes.lease(member=member, runner="r1", **wanted)
    assert lease is not None
    return lease


def play(lease: episodes.Lease, *, success: bool = True) -> None:
    """One turn, and the report of the outcome."""
    factories.call(of=lease.opened.session, message=TURN)
    sessions.finish_session(session=lease.opened.session, success=success)


def counted(batch: RolloutBatch) -> RolloutBatch:
    runner_rollouts.count(batch.pk)
    batch.refresh_from_db()
    return batch


def test_runners_play_what_was_listed_and_the_trajectories_are_the_batchs(
    researcher: Membership, policy: Policy
) -> None:
    batch = started(policy, researcher, samples=2)
    assert counted(batch).state == JobState.RUNNING
    first = leased(researcher, environment="talk", rollouts_id=batch.pk)
    assert first.episode.task["initial_state"] == {"floor": 3}
    assert (first.opened.session.policy, first.opened.session.max_calls) == (policy, runner_rollouts.MAX_CALLS)
    play(first, success=False)
    for _ in range(2):
        sessions.finish_session(session=first.opened.session, success=False)
    while (lease := episodes.lease(member=researcher, runner="r2")) is not None:
        play(lease)
    counted(batch)
    assert (batch.state, batch.finished, batch.succeeded, batch.total) == (JobState.DONE, 4, 3, 4)
    played = batch.trajectories.select_related("task", "policy")
    assert sorted(trajectory.task.key for trajectory in played) == ["a", "a", "b", "b"]
    assert {(trajectory.policy, trajectory.task.environment) for trajectory in played} == {(policy, "talk")}


def test_nobody_leases_after_it_was_stopped_and_before_it_was_resumed(researcher: Membership, policy: Policy) -> None:
    batch = runner_rollouts.start_runner_rollouts(
        workspace=researcher.workspace, policy=policy, by=researcher.user, environment="talk", tasks=TASKS
    )
    runner_rollouts.open_to_runners(batch.pk)
    lease = leased(researcher)
    assert episodes.lease(member=factories.member(Role.OWNER), runner="r") is None
    lifecycle.cancel(RolloutBatch.objects.get(pk=batch.pk), by=researcher.user)
    assert episodes.lease(member=researcher, runner="r") is None
    runner_rollouts.count_all()
    with pytest.raises(sessions.SessionOver):
        sessions.finish_session(session=lease.opened.session, success=True)
    lifecycle.resume(RolloutBatch.objects.get(pk=batch.pk), by=researcher.user)
    assert episodes.lease(member=researcher, runner="r") is None
    runner_rollouts.open_to_runners(batch.pk)
    runner_rollouts.open_to_runners(batch.pk)
    for _ in TASKS:
        again = leased(researcher)
        assert again.episode.losses == 0
        play(again)
    assert counted(batch).state == JobState.DONE


def test_a_batch_is_open_at_once_without_a_worker(researcher: Membership, policy: Policy) -> None:
    batch = runner_rollouts.start_runner_rollouts(
        workspace=researcher.workspace, policy=policy, by=researcher.user, environment="talk", tasks=TASKS
    )
    assert batch.state == JobState.RUNNING
    assert leased(researcher, rollouts_id=batch.pk).episode.batch.rollouts == batch


def test_many_batches_of_a_workspace_leave_the_chores_time_for_others(
    researcher: Membership, policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_rollouts, "TURN_SECONDS", 0.0)
    outsider = factories.member(Role.RESEARCHER)
    crowded = [started(policy, researcher, environment=f"talk {n}") for n in range(3)]
    other = started(served("clerk", outsider), outsider)
    for batch in crowded:
        lifecycle.cancel(batch, by=None)
    lifecycle.cancel(other, by=None)
    open_batches = EpisodeBatch.objects.filter(closed_at=None)
    for left in (2, 1, 0):
        runner_rollouts.count_all()
        assert open_batches.filter(rollouts__workspace=researcher.workspace).count() == left
        assert not open_batches.filter(rollouts__workspace=outsider.workspace).exists()


def test_a_lost_episode_is_played_again_and_leaves_no_trajectory(researcher: Membership, policy: Policy) -> None:
    batch = started(policy, researcher, tasks=TASKS[:1])
    vanished = leased(researcher)
    factories.call(of=vanished.opened.session, message=TURN)
    Session.objects.update(expires_at=now() - timedelta(seconds=1))
    play(leased(researcher))
    with pytest.raises(sessions.SessionOver):
        sessions.finish_session(session=vanished.opened.session, success=True)
    assert (counted(batch).state, batch.finished, batch.trajectories.count()) == (JobState.DONE, 1, 1)


def test_what_always_breaks_is_given_up_and_tried_again_when_resumed(researcher: Membership, policy: Policy) -> None:
    batch = started(policy, researcher, tasks=TASKS[:1])
    for _ in range(episodes.MAX_LOSSES):
        sessions.abandon_session(session=leased(researcher).opened.session, problem="KeyError: 'lamp'")
    assert episodes.lease(member=researcher, runner="r") is None
    assert counted(batch).state == JobState.FAILED
    assert batch.error.startswith("No episode was played to its end.")
    lifecycle.resume(batch, by=researcher.user)
    runner_rollouts.open_to_runners(batch.pk)
    sessions.finish_session(session=leased(researcher).opened.session, success=True)  # without a chat
    assert counted(batch).state == JobState.FAILED
    lifecycle.resume(batch, by=researcher.user)
    runner_rollouts.open_to_runners(batch.pk)
    play(leased(researcher))
    assert counted(batch).state == JobState.DONE


def test_the_deadline_ends_it_once_something_was_played(researcher: Membership, policy: Policy) -> None:
    batch = started(policy, researcher, deadline_seconds=60)
    slow = leased(researcher)
    batch.episode_batch.began_at = now() - timedelta(seconds=61)
    batch.episode_batch.save()
    assert counted(batch).state == JobState.RUNNING
    play(leased(researcher))
    assert (counted(batch).state, batch.finished) == (JobState.DONE, 1)
    slow.opened.session.refresh_from_db()
    assert slow.opened.session.state == Session.State.ABANDONED


def test_a_policy_that_is_served_no_more_ends_it(researcher: Membership, policy: Policy) -> None:
    batch = started(policy, researcher)
    Policy.objects.filter(pk=policy.pk).update(kind=Policy.Kind.MODEL, endpoint=None)
    assert episodes.lease(member=researcher, runner="r") is None
    batch.refresh_from_db()
    assert batch.state == JobState.FAILED
    assert "isn't served anywhere" in batch.error


def test_refusals_say_why(researcher: Membership, policy: Policy) -> None:
    silent = factories.policy(of=researcher.workspace, kind=Policy.Kind.MODEL, location="example/base")
    with pytest.raises(NobodyServes):
        started(silent, researcher)
    with pytest.raises(NobodyServes):
        started(served("other", factories.member(Role.RESEARCHER)), researcher)
    with pytest.raises(TooMany, match="0 tasks"):
        started(policy, researcher, tasks=[])
    with pytest.raises(UnknownTasks, match="Two tasks have the key 'a'"):
        started(policy, researcher, tasks=[TASKS[0], TASKS[0]])
    with pytest.raises(TooMany, match="64 MB at most"):
        started(policy, researcher, tasks=[Task(str(n), "x" * 90_000) for n in range(12)], samples=64)
    with pytest.raises(UnknownTasks, match="no held-out task of 'talk'"):
        runner_rollouts.draw_tasks(researcher.workspace_id, "talk", split="held_out", count=3)


def test_tasks_are_drawn_by_a_seed(researcher: Membership) -> None:
    for number in range(20):
        factories.task(of=researcher.workspace, environment="talk", key=f"t{number}", held_out=number > 9)

    def keys(**wanted: Any) -> list[str]:
        return [task.key for task in runner_rollouts.draw_tasks(researcher.workspace_id, "talk", **wanted)]

    drawn = keys(split="train", count=4, seed=3)
    assert len(drawn) == 4
    assert drawn == keys(split="train", count=4, seed=3) != keys(split="train", count=4, seed=4)
    assert sorted(keys(split="held_out", count=99)) == sorted(f"t{number}" for number in range(10, 20))


def test_a_list_of_tasks_has_a_line_each() -> None:
    plain, named = read_tasks('Refund order 17.\n\n{"key": "k", "initial_state": {"a": 1}}\n')
    assert (plain.instruction, len(plain.key)) == ("Refund order 17.", 16)
    assert (named.key, named.initial_state) == ("k", {"a": 1})
    [whole] = read_tasks('{"instruction": "Two\u2028lines, one\u0085task."}\r\n')
    assert whole.instruction == "Two\u2028lines, one\u0085task."
    for text, words in (
        ('{"key": ', "Line 1 begins like a JSON object"),
        ('x\n{"instruction": ""}', "Line 2: `task` has no key."),
        ('{"key": "k", "payload": 1}', "unknown field 'payload'"),
        ('{"key": "' + "k" * 301 + '"}', "key has more than 300 characters"),
        ('{"key": "k", "initial_state": "' + "s" * 100_000 + '"}', "a task may have 100,000 at most"),
        ("t\n" * 5001, "more than 5,000 tasks"),
    ):
        with pytest.raises(BadTask, match=words):
            read_tasks(text)


def test_an_experiment_in_an_environment_of_ones_own_is_played_by_runners(
    researcher: Membership, policy: Policy
) -> None:
    for number in range(3):
        factories.task(of=researcher.workspace, environment="talk", key=f"t{number}", held_out=True)
    experiment = experiments.start_experiment(
        workspace=researcher.workspace,
        name="new against old",
        environment="talk",
        policy_a=policy,
        policy_b=served("other", researcher),
        tasks=40,
        levels=[],
        samples=1,
        overlap=1,
        rule=StoppingRule(min_tasks=2),
        seed=5,
        by=researcher.user,
    )
    for batch in RolloutBatch.objects.all():
        runner_rollouts.open_to_runners(batch.pk)
    tasks_by_run: dict[str, set[str]] = {}
    while (lease := episodes.lease(member=researcher, runner="r")) is not None:
        name = lease.opened.session.policy_name
        tasks_by_run.setdefault(name, set()).add(lease.episode.task["key"])
        factories.call(of=lease.opened.session, message={"role": "assistant", "content": f"I am {name}."})
        sessions.finish_session(session=lease.opened.session, success=True)
    assert tasks_by_run == {"clerk": {"t0", "t1", "t2"}, "other": {"t0", "t1", "t2"}}
    runner_rollouts.count_all()
    experiments.advance(experiment)
    experiment.refresh_from_db()
    assert experiment.state == Experiment.State.LABELING
    assert experiment.queue is not None
    assert experiment.queue.items.count() == 3


def test_over_rest_and_on_the_page(researcher: Membership, policy: Policy, client: Client) -> None:
    client.force_login(researcher.user)
    url = reverse("v1:rollouts")
    facts = {"policy": str(policy.pk), "environment": "talk", "played_by": "runners"}

    def sent(**changes: Any) -> Any:
        return client.post(url, {**facts, **changes}, content_type="application/json")

    assert "no held-out task of 'talk'" in sent().json()["detail"]
    assert sent(tasks=[{"key": "a", "nonsense": 1}]).json()["fields"]["tasks"][0].startswith("Task 1 has an unknown")
    assert sent(tasks=[{"key": "a"}], played_by="retrace").status_code == 400
    answer = sent(tasks=[{"key": "a", "instruction": "Say a."}], steps=3, lease_seconds=15)
    assert answer.status_code == 201, answer.json()
    batch = RolloutBatch.objects.get(pk=answer.json()["id"])
    runner_rollouts.open_to_runners(batch.pk)
    body = {"runner": "r1", "rollouts": str(batch.pk)}
    lease = client.post("/api/v1/episodes/lease", body, content_type="application/json").json()
    assert (lease["run"], lease["rollouts"], lease["run_name"]) == (None, str(batch.pk), "Rollouts in talk")
    assert (lease["max_calls"], lease["lease_seconds"], lease["moment"]) == (3, 15, "")
    renewed = client.post(reverse("v1:session_renew", args=[lease["session"]])).json()
    assert (renewed["policy"], renewed["policy_name"]) == (None, "policy")
    assert "clerk" not in f"{lease}{renewed}{Session.objects.get().public_name}"  # an experiment's runners aren't told
    page = client.get(reverse("training:rollouts", args=[batch.pk])).content.decode()
    assert "r1:" in page
    assert "The exact command" not in page
    form = {"policy": str(policy.pk), "environment": "talk", "tasks": "Say c.\nSay d.", "samples": 2, "steps": 5}
    new = reverse("training:new_runner_rollouts")
    assert client.get(new).status_code == 200
    assert client.post(new, {**form, "lease_seconds": 1, "deadline_hours": 2}).status_code == 422
    made = client.post(new, {**form, "lease_seconds": 60, "deadline_hours": 2})
    assert made.status_code == 302, made.content
    assert RolloutBatch.objects.order_by("-id")[0].total == 4
