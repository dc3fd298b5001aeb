"""Queries on runs for the pages and the API."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Prefetch, Q, QuerySet
from django.utils.timezone import now

from apps.accounts.models import Membership
from apps.common import quantities
from apps.common.sorting import by_age, by_name
from apps.datasets.models import Split, VersionJudgment, VersionPreference
from apps.gateway.models import Session
from apps.jobs.waits import approximate_duration
from apps.training.models import Episode, EpisodeBatch, Run, RunEvent
from apps.trajectories.models import RolloutBatch

TIMELINE = 200
SHOWN_RUNNERS = 20
RUN_COLUMNS = (by_name("Run", "name", "pk"), by_age("Launched"))


@dataclass(frozen=True)
class Headway:
    """A run's progress as text."""

    text: str
    end: str
    done: int | None
    total: int
    because: str = ""
    """What the remaining time is based on."""


@dataclass(frozen=True)
class EpisodesOfRunners:
    """Progress of the episodes that runners are playing for a run's current weights or for a batch of rollouts."""

    moment: str
    """The point in the training run; empty for rollouts."""
    total: int
    done: int
    playing: list[tuple[str, int]]
    """Runners with leased episodes and how many each has, most first."""
    waiting: int
    given_up: int
    """Episodes lost too often to be leased again."""
    command: str
    """The shell command that starts a runner."""

    @property
    def text(self) -> str:
        return f"{self.done} of {self.total} episodes played to their end"


def episodes_of_runners(run: Run) -> EpisodesOfRunners | None:
    """The run's open batch; None if Retrace plays the episodes itself, or no batch is open."""
    if run.config.get("played_by") != "runners" or not run.is_active:
        return None
    batch = run.episode_batches.filter(closed_at=None).first()
    return None if batch is None else _standing_of(batch, run.config["tasks"]["environment"])


def episodes_of_rollouts(batch: RolloutBatch) -> EpisodesOfRunners | None:
    """The batch's open episodes; None if Retrace plays them itself, or none are open."""
    if not (batch.is_of_runners and batch.is_active):
        return None
    batch_of_episodes = EpisodeBatch.objects.filter(rollouts=batch, closed_at=None).first()
    return None if batch_of_episodes is None else _standing_of(batch_of_episodes, batch.environment)


def _standing_of(batch: EpisodeBatch, environment: str) -> EpisodesOfRunners:
    is_open = Q(answered_at=None, session__state=Session.State.OPEN, session__expires_at__gt=now())
    episodes = Episode.objects.filter(batch=batch)
    counts = episodes.aggregate(
        total=Count("pk"),
        done=Count("pk", filter=Q(answered_at__isnull=False, session__state=Session.State.FINISHED)),
        given_up=Count("pk", filter=Q(answered_at__isnull=False) & ~Q(session__state=Session.State.FINISHED)),
        playing=Count("pk", filter=is_open),
    )
    playing = episodes.filter(is_open).values_list("session__agent").annotate(count=Count("pk")).order_by("-count")
    return EpisodesOfRunners(
        moment=batch.moment,
        total=counts["total"],
        done=counts["done"],
        playing=list(playing[:SHOWN_RUNNERS]),
        waiting=counts["total"] - counts["done"] - counts["given_up"] - counts["playing"],
        given_up=counts["given_up"],
        command="retrace serve-agent my_agent:play"
        + (f" --environment {shlex.quote(environment)}" if environment else ""),
    )


def runs_for_list(member: Membership) -> QuerySet[Run]:
    """The columns of the run list, without large fields."""
    return (
        Run.objects.visible_to(member)
        .select_related("version__dataset", "base", "result", "created_by")
        .defer("config", "failure", "version__card", "version__recipe", "version__files")
    )


def runs_for_comparing(member: Membership) -> QuerySet[Run]:
    """Runs with their settings but without their results."""
    return (
        Run.objects.visible_to(member)
        .select_related("version__dataset", "base")
        .defer("failure", "report", "version__card", "version__recipe", "version__files", "base__report")
    )


def runs_for_api(member: Membership) -> QuerySet[Run]:
    """Runs with their learned rewards and, newest first, their alarms and the settings changed on resume."""
    events = RunEvent.objects.order_by("-id")
    return Run.objects.visible_to(member).prefetch_related(
        "rewards",
        Prefetch("events", events.filter(kind="alarm"), to_attr="alarms"),
        Prefetch("events", events.filter(kind="changed"), to_attr="changes"),
    )


def run_for_page(member: Membership) -> QuerySet[Run]:
    """A run with everything its page shows."""
    return Run.objects.visible_to(member).select_related(
        "version__dataset", "base", "result", "created_by", "workspace"
    )


def headway(run: Run, *, at: datetime | None = None) -> Headway:
    """The run's progress and, once its pace is known, the remaining time."""
    current_time = at or now()
    total = run.total_steps
    steps = f"step {run.step:,} of {total:,}" if total else f"step {run.step:,}"
    match run.state:
        case Run.State.QUEUED:
            waited = quantities.duration((current_time - run.queued_at).total_seconds())
            return Headway("Waiting for a worker", waited, run.step or None, total)
        case Run.State.STARTING:
            return Headway(f"Loading the model and the data on {run.worker.partition(':')[0]}", "", None, total)
        case Run.State.RUNNING:
            remaining_time = approximate_duration(run.seconds_left)
            because = run.seconds_left_basis if remaining_time else ""
            return Headway(
                steps.capitalize(), f"{remaining_time} left" if remaining_time else "", run.step, total, because
            )
        case Run.State.CANCELLING:
            return Headway(f"Saving a checkpoint at {steps}, then it stops", "", run.step, total)
        case Run.State.FINISHED:
            return Headway(f"Finished after {run.step:,} steps", _duration_text(run), total, total)
        case _:
            return Headway(f"Stopped at {steps}", _duration_text(run), run.step, total)


def _duration_text(run: Run) -> str:
    if not (run.started_at and run.finished_at):
        return ""
    return quantities.duration((run.finished_at - run.started_at).total_seconds())


@dataclass(frozen=True)
class Lineage:
    """The judgments behind a run's training rows, and who gave them."""

    judgments: int
    annotators: list[tuple[str, str, int]]
    """(kind, name, number of judgments), most active first."""
    more_annotators: int


SHOWN_ANNOTATORS = 6


def lineage_of(run: Run) -> Lineage | None:
    """The people, models, and rules behind the rows; three queries."""
    if run.version_id is None:
        return None
    pairs = VersionPreference.objects.filter(version=run.version_id, split=Split.TRAIN)
    runs = VersionJudgment.objects.filter(version=run.version_id, split=Split.TRAIN)
    counted: Counter[tuple[str, str]] = Counter()
    for sources, judgment in ((pairs, "preference"), (runs, "inspection"), (runs, "rating")):
        by_annotator = (
            sources.filter(**{f"{judgment}__isnull": False})
            .values_list(f"{judgment}__annotator__kind", f"{judgment}__annotator__name")
            .annotate(judgments=Count(judgment, distinct=True))
        )
        for kind, name, judgments in by_annotator:
            counted[kind, name] += judgments
    ordered = sorted(counted.items(), key=lambda entry: (-entry[1], entry[0][1]))
    shown = [(kind, name, judgments) for (kind, name), judgments in ordered[:SHOWN_ANNOTATORS]]
    total = counted.total()
    return Lineage(total, shown, max(0, len(ordered) - SHOWN_ANNOTATORS))
