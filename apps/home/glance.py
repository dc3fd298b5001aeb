"""The loop at a glance: what each station has, what changed in the last day, and what is in progress."""

import json
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from operator import add
from typing import Any, Self

from django.db.models import F, QuerySet, Sum
from django.utils.timezone import now

from apps.accounts.models import Membership
from apps.annotation.kinds import KINDS
from apps.annotation.models import Desk, Queue
from apps.arena.models import Experiment
from apps.common import quantities
from apps.common.ids import first_id_at
from apps.common.quantities import count, counted
from apps.datasets.models import Version
from apps.jobs.models import JobState
from apps.policies.models import Policy, Promotion
from apps.training.models import Run
from apps.trajectories.models import ImportBatch, RolloutBatch, Trajectory


@dataclass(frozen=True)
class EstimatedCount:
    """A count: exact if it's small, otherwise the planner's estimate, displayed with "about"."""

    number: int
    exact: bool

    def __str__(self) -> str:
        return quantities.count(self.number) if self.exact else f"about {quantities.count(self.number)}"

    def __bool__(self) -> bool:
        return self.number > 0

    def __add__(self, other: Self) -> Self:
        return type(self)(self.number + other.number, exact=self.exact and other.exact)


def estimated_count(rows: QuerySet[Any], *, cap: int = 10_000) -> EstimatedCount:
    """Count `rows` up to `cap`; above that, use the estimate of PostgreSQL's planner."""
    keys = rows.order_by().values("pk")
    count = keys[: cap + 1].count()
    if count <= cap:
        return EstimatedCount(count, exact=True)
    plan = json.loads(keys.explain(format="json"))
    # Statistics may lag behind; the number counted is a lower bound.
    return EstimatedCount(max(int(plan[0]["Plan"]["Plan Rows"]), count), exact=False)


RECENT = timedelta(hours=24)
NAMED = 2
"""How many champions a station names; the others are only counted."""


@dataclass(frozen=True)
class Station:
    """A stage of the loop."""

    name: str
    app: str
    """The app with its pages; the navigation has their URL."""
    there: EstimatedCount
    fresh: EstimatedCount
    """How many of those were created in the last 24 hours."""
    now: str
    """What is in progress, or the most important of what exists; may be empty."""
    is_active: bool = False
    has_result: bool = True
    """False if everything is in progress, or failed."""


def stations(member: Membership) -> list[Station]:
    """The six stations in the order of the loop."""
    return [
        _trajectories(member),
        _judgments(member),
        _versions(member),
        _runs(member),
        _policies(member),
        _experiments(member),
    ]


def _station(
    name: str, app: str, rows: QuerySet[Any], now_: str, *, active: bool = False, has_result: bool = True
) -> Station:
    return Station(name, app, estimated_count(rows), estimated_count(_fresh(rows)), now_, active, has_result)


def _fresh(rows: QuerySet[Any]) -> QuerySet[Any]:
    return rows.filter(pk__gte=first_id_at(now() - RECENT))


def _trajectories(member: Membership) -> Station:
    importing = (
        ImportBatch.objects.visible_to(member).filter(state__in=[JobState.WAITING, JobState.RUNNING])[:100].count()
    )
    rolling = RolloutBatch.objects.visible_to(member).filter(state__in=[JobState.WAITING, JobState.RUNNING])
    done = rolling.aggregate(finished=Sum("finished"), total=Sum("total"))
    notes = []
    if importing:
        notes.append(counted(importing, "file coming in", "files coming in"))
    if done["total"]:
        notes.append(f"{count(done['finished'])} of {count(done['total'])} rollouts done")
    rows = Trajectory.objects.visible_to(member)
    return _station("Trajectories", "trajectories", rows, ", ".join(notes), active=bool(notes))


def _judgments(member: Membership) -> Station:
    queues = Queue.objects.visible_to(member).open()
    requested = queues.aggregate(places=Sum(F("item_count") * F("overlap")))["places"] or 0
    judged = Desk.objects.filter(queue__in=queues).aggregate(judged=Sum("judged"))["judged"] or 0
    note = f"{count(judged)} of {count(requested)} in open queues" if requested else ""
    kinds = [kind.valid_judgments.visible_to(member) for kind in KINDS.values()]
    total = reduce(add, map(estimated_count, kinds))
    fresh = reduce(add, (estimated_count(_fresh(rows)) for rows in kinds))
    return Station("Judgments", "annotation", total, fresh, note)


def _versions(member: Membership) -> Station:
    versions = Version.objects.visible_to(member)
    latest = versions.select_related("dataset").order_by("-pk").first()
    note, active = "", False
    if latest is not None:
        note, active = f"{latest} · {latest.get_state_display().lower()}", latest.is_active
    return _station("Versions", "datasets", versions.frozen(), note, active=active)


def _runs(member: Membership) -> Station:
    runs = Run.objects.visible_to(member)
    active = list(runs.active().order_by("-pk")[:100])
    note = ""
    if len(active) == 1:
        [run] = active
        note = f"{run} · {_progress(run)}"
    elif active:
        note = f"{len(active)} in progress"
    has_result = runs.filter(state=Run.State.FINISHED).exists()
    return _station("Training runs", "training", runs, note, active=bool(active), has_result=has_result)


def _progress(run: Run) -> str:
    if run.state == Run.State.RUNNING and run.total_steps:
        return f"step {count(run.step)} of {count(run.total_steps)}"
    return str(run.get_state_display()).lower()


def _policies(member: Membership) -> Station:
    champions = list(Promotion.objects.visible_to(member).current().select_related("policy")[: NAMED + 1])
    note = ", ".join(f"{promotion.policy} leads {promotion.environment}" for promotion in champions[:NAMED])
    if len(champions) > NAMED:
        note += " and more"
    return _station("Policies", "policies", Policy.objects.visible_to(member).filter(archived_at=None), note)


def _experiments(member: Membership) -> Station:
    experiments = Experiment.objects.visible_to(member)
    active = list(
        experiments.filter(state__in=[Experiment.State.ROLLING_OUT, Experiment.State.LABELING]).order_by("-pk")[:100]
    )
    note = ""
    if len(active) == 1:
        note = f"{active[0]} · {active[0].get_state_display().lower()}"
    elif active:
        note = f"{len(active)} in progress"
    return _station("Experiments", "arena", experiments, note, active=bool(active))
