"""Experiments over existing trajectories: imported, recorded from outside agents, or generated here earlier."""

from __future__ import annotations

import random
from dataclasses import asdict
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, UUIDField, Window
from django.db.models.functions import Coalesce, RowNumber

from apps.accounts import audit
from apps.accounts.models import User, Workspace
from apps.arena.lifecycle import make_queue_of
from apps.arena.models import Experiment
from apps.arena.pairs import Attempt, match
from apps.arena.stopping_rule import StoppingRule
from apps.policies.models import Policy
from apps.policies.promotions import NO_ENVIRONMENT
from apps.training.workspace_tasks import whole_tasks
from apps.trajectories.models import Task, Trajectory

FEWEST_TASKS = 2


class NothingInCommon(Exception):
    """The two policies have attempted too few of the same tasks."""


def attempts_of(policy: Policy) -> QuerySet[Trajectory]:
    """Its complete attempts at tasks, without branches of other trajectories."""
    return Trajectory.objects.filter(workspace=policy.workspace_id, policy=policy, step_count__gt=0, parent=None)


def tasks_in_common(
    policy_a: Policy, policy_b: Policy, *, environment: str | None = None, held_out_only: bool = False
) -> QuerySet[Task]:
    """Tasks that both have attempted, of one environment ("" for tasks that name none) or of all; not those of sub-agents, whose chats
    are parts of an attempt: an experiment's tasks must be independent."""
    tasks = whole_tasks(policy_a.workspace_id)
    if environment is not None:
        tasks = tasks.filter(environment=environment)
    if held_out_only:
        tasks = tasks.filter(held_out=True)
    for policy in (policy_a, policy_b):
        tasks = tasks.filter(Exists(attempts_of(policy).filter(task=OuterRef("pk"))))
    return tasks


@transaction.atomic
def start_recorded_experiment(
    *,
    workspace: Workspace,
    name: str,
    environment: str,
    policy_a: Policy,
    policy_b: Policy,
    tasks: int,
    samples: int,
    overlap: int,
    held_out_only: bool,
    rule: StoppingRule,
    seed: int,
    by: User,
) -> Experiment:
    """Compare existing trajectories of both policies on the same tasks, in a blind queue with the usual stopping rule.

    The trajectories are fixed now, without regard to their results: `tasks` drawn by `seed` from those in common, and the first `samples` of either
    policy on each. Later arrivals have no effect. Raises NothingInCommon.
    """
    common = sorted(
        tasks_in_common(policy_a, policy_b, environment=environment, held_out_only=held_out_only).values_list(
            "pk", flat=True
        )
    )
    if len(common) < FEWEST_TASKS:
        raise NothingInCommon(
            f"{policy_a} and {policy_b} have attempted {len(common)} of the same {'held-out ' if held_out_only else ''}tasks there; "
            f"a comparison needs {FEWEST_TASKS} or more. Import or record more of their trajectories first."
        )
    random.Random(seed).shuffle(common)
    chosen = common[:tasks]
    sides = [_first_attempts(policy, chosen, samples) for policy in (policy_a, policy_b)]
    # Locked so that a concurrent deletion of a trajectory waits for this experiment and sees it.
    trajectory_ids = [attempt.trajectory for side in sides for attempt in side]
    locked = (
        Trajectory.objects.filter(pk__in=trajectory_ids).select_for_update(no_key=True).order_by("pk").values_list("pk")
    )
    if len(locked) < len(trajectory_ids):
        raise NothingInCommon("Some of these trajectories are being deleted. Try again.")
    plan = {
        "source": "recorded",
        "tasks": len(chosen),
        "samples": samples,
        "overlap": overlap,
        "seed": seed,
        "held_out_only": held_out_only,
        "rule": asdict(rule),
    }
    experiment = Experiment.objects.create(
        workspace=workspace,
        name=name,
        environment=environment or NO_ENVIRONMENT,
        policy_a=policy_a,
        policy_b=policy_b,
        recorded_a=[attempt.trajectory for attempt in sides[0]],
        recorded_b=[attempt.trajectory for attempt in sides[1]],
        plan=plan,
        created_by=by,
    )
    make_queue_of(experiment, match(*sides))
    audit.record(workspace=workspace, actor=by, action="started experiment", subject=name, target=experiment, **plan)
    return experiment


def comparison_of(trajectory_id: UUID) -> str:
    """The answer "an experiment" if one compares the trajectory, also where it's in no item, as those of identical pairs; "" if none does."""
    workspace = Trajectory.objects.filter(pk=trajectory_id).values("workspace")
    compares = Q(recorded_a__contains=[trajectory_id]) | Q(recorded_b__contains=[trajectory_id])
    return "an experiment" if Experiment.objects.filter(compares, workspace__in=workspace).exists() else ""


def _first_attempts(policy: Policy, tasks: list[UUID], samples: int) -> list[Attempt]:
    """The attempts at each task that began first. Not those that ended first, as ids do: these are more often short, such as those that soon failed.

    Those of a batch of rollouts begin together, and are numbered.
    """
    begun = Coalesce("session_path__session", "rollout_batch", "id", output_field=UUIDField())
    row_number = Window(
        RowNumber(), partition_by=F("task"), order_by=[begun.asc(), F("external_id").asc(), F("id").asc()]
    )
    rows = attempts_of(policy).filter(task__in=tasks).annotate(place=row_number).filter(place__lte=samples)
    attempts = [Attempt(*row) for row in rows.order_by("place").values_list("task_id", "id", "course")]
    order = {task: number for number, task in enumerate(tasks)}
    return sorted(attempts, key=lambda attempt: order[attempt.task])
