"""Starting, advancing, and ending an experiment."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from django.db import transaction
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts import audit
from apps.accounts.models import User, Workspace
from apps.annotation.kinds.pair_selection import shuffled_place
from apps.annotation.models import Queue
from apps.arena import live_feed
from apps.arena.blind_queues import blind_queue
from apps.arena.models import Experiment
from apps.arena.pairs import Attempt, Matching, match
from apps.arena.queries import current_standing
from apps.arena.stopping_rule import Outcome, StoppingRule
from apps.common.environments import ENVIRONMENTS
from apps.common.workspace_turns import in_workspace_turns
from apps.gateway.splits.changes import switch
from apps.gateway.splits.models import TrafficSplit
from apps.jobs.models import JobState
from apps.policies import promotions
from apps.policies.models import Policy
from apps.training.runner_rollouts import draw_tasks, start_runner_rollouts
from apps.trajectories.models import RolloutBatch, Trajectory
from apps.trajectories.rollouts import rollout_batches
from apps.webhooks.events import EventType
from apps.webhooks.outbox import announce

TURN_SECONDS = 2.0
"""Time limit per workspace in a pass through all experiments, since each is recomputed and passes follow each other closely."""
UNFINISHED = "Rollouts did not finish: "
"""Prefix of the error of experiments that can continue once their rollouts do."""


class NotRunning(Exception):
    """The experiment is already decided, or never reached labeling."""


@transaction.atomic
def start_experiment(
    *,
    workspace: Workspace,
    name: str,
    environment: str,
    policy_a: Policy,
    policy_b: Policy,
    tasks: int,
    levels: list[str],
    samples: int,
    overlap: int,
    rule: StoppingRule,
    seed: int,
    by: User,
    steps: int | None = None,
) -> Experiment:
    """Let both policies attempt the same held-out tasks; the blind queue is created when both are done.

    Everything that determines the outcome (tasks, seed, stopping rule) is fixed now. A trajectory is cut off after `steps`; None
    uses the trainer's default. Environments that aren't built in are played by runners. Raises RolloutRefused.
    """
    plan = {
        "tasks": tasks,
        "levels": levels,
        "steps": steps,
        "samples": samples,
        "overlap": overlap,
        "seed": seed,
        "rule": asdict(rule),
    }
    drawn: dict[str, Any] = {"split": "held_out", "levels": levels, "seed": seed}
    columns: dict[str, Any] = {"workspace": workspace, "environment": environment, "samples": samples, "by": by}
    if environment in ENVIRONMENTS:
        columns |= {"tasks": {**drawn, "count": tasks}, "seed": seed, "budget": {"steps": steps} if steps else None}
        start: Callable[..., RolloutBatch] = rollout_batches.start_rollouts
    else:  # drawn once for both, since the workspace's tasks may grow in between
        columns |= {**drawn, "tasks": draw_tasks(workspace.pk, environment, count=tasks, **drawn)}
        columns |= {"max_calls": steps} if steps else {}
        start = start_runner_rollouts
    rollouts = [start(policy=policy, **columns) for policy in (policy_a, policy_b)]
    experiment = Experiment.objects.create(
        workspace=workspace,
        name=name,
        environment=environment,
        policy_a=policy_a,
        policy_b=policy_b,
        rollouts_a=rollouts[0],
        rollouts_b=rollouts[1],
        plan=plan,
        created_by=by,
    )
    audit.record(workspace=workspace, actor=by, action="started experiment", subject=name, target=experiment, **plan)
    return experiment


def under_way_by_turns() -> Iterator[Experiment]:
    """Experiments to advance in one pass."""
    under_way = Experiment.objects.filter(state__in=[Experiment.State.ROLLING_OUT, Experiment.State.LABELING])
    return in_workspace_turns(under_way, name="experiments", seconds=TURN_SECONDS)


def advance(experiment: Experiment) -> None:
    """Take the next step if one is due: create the queue, or end by the rule. Safe to call at any time, concurrently."""
    if experiment.state == Experiment.State.ROLLING_OUT:
        _make_queue(experiment)
    elif experiment.state == Experiment.State.LABELING:
        if experiment.is_live:
            live_feed.feed(experiment)
            experiment.refresh_from_db()
        _end_by_rule(experiment)


@transaction.atomic
def _make_queue(experiment: Experiment) -> None:
    locked = Experiment.objects.select_for_update().get(pk=experiment.pk)
    if locked.state != Experiment.State.ROLLING_OUT or locked.queue_id:
        return
    batches = list(RolloutBatch.objects.filter(pk__in=[locked.rollouts_a_id, locked.rollouts_b_id]))
    if any(batch.state in (JobState.FAILED, JobState.CANCELLED) for batch in batches):
        locked.state = Experiment.State.FAILED
        locked.error = UNFINISHED + "; ".join(
            f"{batch.policy.name} {batch.get_state_display().lower()}" + (f" ({batch.error})" if batch.error else "")
            for batch in batches
            if batch.state != JobState.DONE
        )
        locked.save(update_fields=["state", "error"])
        return
    if not batches or any(batch.state != JobState.DONE for batch in batches):
        return
    seed = locked.plan.get("seed", 0)
    make_queue_of(locked, match(_runs(locked.rollouts_a_id, seed), _runs(locked.rollouts_b_id, seed)))


def make_queue_of(locked: Experiment, matching: Matching) -> None:
    """Create a blind queue of these pairs and move the experiment to labeling."""
    if not (matching.pairs or matching.alike):
        locked.state = Experiment.State.FAILED
        locked.error = "The two policies have no finished task in common, so there is nothing to compare."
        locked.save(update_fields=["state", "error"])
        return
    locked.alike = [[str(pair.task), pair.position] for pair in matching.alike]
    if matching.pairs:
        locked.queue = blind_queue(locked, matching.pairs, unmatched_tasks=matching.unmatched_tasks)
    locked.state = Experiment.State.LABELING
    locked.save(update_fields=["alike", "queue", "state"])


def resume_failed() -> int:
    """Continue experiments that failed with their rollouts, once those are resumed or done; returns how many. The queue follows as usual."""
    going_on = RolloutBatch.objects.exclude(state__in=[JobState.FAILED, JobState.CANCELLED])
    failed = Experiment.objects.filter(state=Experiment.State.FAILED, queue=None, error__startswith=UNFINISHED)
    resumed = failed.filter(rollouts_a__in=going_on, rollouts_b__in=going_on)
    return resumed.update(state=Experiment.State.ROLLING_OUT, error="")


def _runs(batch_id: Any, seed: int) -> list[Attempt]:
    """The attempts of a batch: those of a task by their number, the tasks in an order drawn by the seed.

    The stopping rule looks after each task, so that any others would bias it: by name, the easy ones come first.
    """
    runs = Trajectory.objects.filter(rollout_batch=batch_id, step_count__gt=0).order_by("external_id", "id")
    attempts = [Attempt(*run) for run in runs.values_list("task_id", "id", "course")]
    return sorted(attempts, key=lambda attempt: shuffled_place(f"{seed} {attempt.task}"))


def _end_by_rule(experiment: Experiment) -> None:
    if current_standing(experiment).outcome is not Outcome.UNDECIDED:
        _end(experiment, by=None)


def stop_experiment(*, experiment: Experiment, by: User) -> None:
    """End before the stopping rule does. The verdict records that, since it doesn't have the rule's guarantee. Raises NotRunning."""
    if not _end(experiment, by=by):
        raise NotRunning(f"{experiment} isn't being labeled, so there is nothing to stop.")


def evidence_of(experiment: Experiment) -> dict[str, Any]:
    """The evidence of a promotion: the experiment, and its verdict or, while it runs, its current figures."""
    figures = experiment.verdict or current_standing(experiment).as_evidence()
    return {"experiment": str(experiment.pk), "name": experiment.name, **figures}


def split_compared(experiment: Experiment) -> TrafficSplit | None:
    """The traffic split that a promotion turns off, so that all traffic goes to the champion. None if it's off, feeds another experiment, or routes to
    other policies by now.
    """
    split = experiment.split
    if split is None or not split.is_on or split.experiment not in (None, experiment.pk):
        return None
    arms = set(split.arms.values_list("policy_id", flat=True))
    return split if arms == {experiment.policy_a_id, experiment.policy_b_id} else None


@transaction.atomic
def promote_from(*, experiment: Experiment, policy: Policy, by: User, reason: str) -> TrafficSplit | None:
    """Make one of the two policies the champion, on the current evidence; returns the traffic split that this turned off.

    A live experiment ends with it, since no more sessions would arrive. Raises AlreadyChampion if nothing would change.
    """
    if experiment.split_id:
        experiment.split = TrafficSplit.objects.select_for_update(no_key=True).get(pk=experiment.split_id)
    split = split_compared(experiment)
    ends = experiment.is_live and experiment.state == Experiment.State.LABELING
    try:
        promotions.promote(
            policy=policy,
            environment=experiment.environment,
            by=by,
            reason=reason,
            evidence=evidence_of(experiment),
        )
    except promotions.AlreadyChampion:
        if split is None and not ends:
            raise
    if ends:
        _end(experiment, by=by, promoted=policy)
    if split is not None:
        switch(split=split, is_on=False, by=by, reason=f"{policy} was promoted from {experiment}.")
    return split


@transaction.atomic
def _end(experiment: Experiment, *, by: User | None, promoted: Policy | None = None) -> bool:
    """End an experiment that is being labeled, without `by` only if its rule says so; returns whether it did.

    Its queue is locked before the figures are computed: judgments that are being stored or undone come before the verdict or after it, as a whole.
    The split that feeds it is locked first, as by whoever starts another experiment on it.
    """
    TrafficSplit.objects.select_for_update(no_key=True).filter(experiment=experiment.pk).first()
    locked = Experiment.objects.select_for_update(of=("self",)).get(pk=experiment.pk)
    if locked.state != Experiment.State.LABELING:
        return False
    queue = Queue.objects.select_for_update(of=("self",)).filter(experiment=locked).first()
    figures = current_standing(locked)
    if by is None and figures.outcome is Outcome.UNDECIDED:
        return False
    is_by_rule = figures.outcome is not Outcome.UNDECIDED  # also if somebody stops it before the next periodic check
    verdict = {**figures.as_evidence(), "stopped_by_rule": is_by_rule, "stopped_by": by.name if by else ""}
    if promoted:
        verdict["promoted"] = promoted.name
    locked.state, locked.verdict, locked.stopped_at = Experiment.State.STOPPED, verdict, now()
    locked.save(update_fields=["state", "verdict", "stopped_at"])
    if queue is not None and queue.state in (Queue.State.OPEN, Queue.State.PAUSED):
        Queue.objects.filter(pk=queue.pk).update(state=Queue.State.CLOSED)
    TrafficSplit.objects.filter(experiment=experiment.pk).update(experiment=None)
    audit.record(
        workspace=experiment.workspace,
        actor=by,
        action="stopped experiment" if by else "experiment ended by its rule",
        subject=experiment.name,
        target=experiment,
        outcome=figures.outcome,
    )
    announce(
        EventType.EXPERIMENT_DECIDED,
        workspace_id=experiment.workspace_id,
        name=experiment.name,
        page=reverse("arena:experiment", args=[experiment.pk]),
        id=str(experiment.pk),
        outcome=str(figures.outcome),
        stopped_by_rule=is_by_rule,
    )
    return True
