"""The base of all jobs: work owned by one worker at a time, for as long as it renews its lease.

Claiming a job increments its attempt number, and all of a worker's writes are conditional on it (a fencing token). So a worker that was
presumed dead and comes back can't change anything. The functions that write are in `lifecycle`.

`Kind` describes a kind of job to the engine. Each app registers its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar, cast

from django.conf import settings
from django.db import models
from django.db.models.functions import Now
from django.utils.timezone import now

from apps.accounts.models import User, WorkspaceModel, WorkspaceQuerySet
from apps.webhooks.events import EventType

J = TypeVar("J", bound="Job")

RESEND_AFTER = timedelta(minutes=10)
"""When to resend the message for a waiting job, in case the broker lost it."""


class Superseded(Exception):
    """This attempt no longer owns its job: the lease expired and another worker has it, or it's over."""


def lease() -> timedelta:
    """How long a worker may go without renewing before its job is given to another."""
    return timedelta(seconds=settings.WORKER_LEASE_SECONDS)


class Phase(models.TextChoices):
    """The phases of every job. A kind may use other names, or several states within a phase."""

    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    STOPPING = "stopping", "Stopping"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


HELD = (Phase.RUNNING, Phase.STOPPING)
ACTIVE = (Phase.WAITING, *HELD)
RESUMABLE = (Phase.FAILED, Phase.CANCELLED)


class JobState(models.TextChoices):
    """Default states, for kinds that don't define their own."""

    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


@dataclass(frozen=True)
class Failure:
    """Why a job stopped: what happened, what to do now and, for a child process, the end of its log and the command to run it by hand."""

    category: str
    message: str
    advice: str = ""
    details: str = ""
    log: list[str] = field(default_factory=list)
    command: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Headway(NamedTuple):
    """A job's progress: done of total, where a total of 0 means unknown."""

    done: int
    total: int
    unit: str


class JobQuerySet(WorkspaceQuerySet[J]):
    """Named queries on jobs."""

    def in_phase(self, *phases: Phase) -> Self:
        return self.filter(state__in=self.model.states_in(*phases))

    def active(self) -> Self:
        return self.in_phase(*ACTIVE)

    def waiting(self) -> Self:
        return self.in_phase(Phase.WAITING)

    def held(self, attempt: int) -> Self:
        """Jobs that this attempt still owns: the fence for everything that a worker writes."""
        return self.in_phase(*HELD).filter(attempt=attempt)

    def orphaned(self) -> Self:
        """Jobs claimed by a worker that stopped renewing its lease."""
        return self.in_phase(*HELD).filter(leased_until__lt=now())

    def overdue(self) -> Self:
        """Jobs that have waited for so long that the message may have been lost; resending it is harmless."""
        return self.waiting().filter(leased_until__lt=now())


class Job(WorkspaceModel):
    """The columns that every kind of job has. A kind adds `state`, with `PHASES` mapping phases to its states."""

    PHASES: ClassVar[Mapping[str, Phase]] = {state.value: Phase(state.value) for state in JobState}
    """The states of each phase. A job enters a phase in its first state."""
    MAX_LOSSES: ClassVar[int] = 3
    """Consecutive attempts that may be lost without progress before the job fails."""

    state = models.CharField(max_length=12)
    queued_at = models.DateTimeField(
        db_default=Now(), help_text="Since when the job has been waiting, or was last waiting, for a worker."
    )
    attempt = models.PositiveIntegerField(default=0, help_text="How many times a worker has claimed the job.")
    worker = models.CharField(max_length=200, blank=True, help_text="host:process of the worker that holds the job.")
    process_id = models.PositiveIntegerField(
        null=True, help_text="Id of the child process that runs the job, on the host of `worker`."
    )
    leased_until = models.DateTimeField(
        null=True,
        help_text="End of the worker's lease; while the job waits, when to resend its message to the workers.",
    )
    losses = models.PositiveSmallIntegerField(
        default=0, help_text="Attempts lost since the job was started or last made progress."
    )
    loss = models.TextField(blank=True, help_text="Why the last attempt was lost.")
    failure = models.JSONField(default=dict, help_text="Category, message, advice, last log lines, command.")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    @classmethod
    def states_in(cls, *phases: Phase) -> list[str]:
        """The states of this kind that are in any of these phases."""
        return [state for state, phase in cls.PHASES.items() if phase in phases]

    @property
    def phase(self) -> Phase:
        return self.PHASES[self.state]

    @property
    def is_active(self) -> bool:
        return self.phase in ACTIVE

    @property
    def is_cancellable(self) -> bool:
        return self.phase in (Phase.WAITING, Phase.RUNNING)

    @property
    def is_resumable(self) -> bool:
        return self.phase in RESUMABLE

    @property
    def headway(self) -> Headway | None:
        """Its progress, if countable."""
        return None

    @property
    def seconds_left(self) -> float | None:
        """Estimated remaining time at the current pace; None if unknown, such as in a resumed attempt."""
        headway = self.headway
        if self.phase not in HELD or self.attempt != 1 or headway is None or self.started_at is None:
            return None
        if not 0 < headway.done < headway.total:
            return None
        return (now() - self.started_at).total_seconds() / headway.done * (headway.total - headway.done)

    @property
    def resumes_from(self) -> str:
        """Where the next attempt continues, as text."""
        return "where it stopped"

    @property
    def advice_when_lost(self) -> str:
        """Advice if workers keep dying while they have it."""
        return "See why the workers die (their log, the machine's memory), then start it again."

    @property
    def setback(self) -> str:
        """What happened to earlier attempts, as long as there is no progress; empty otherwise."""
        if not (self.losses and self.is_active):
            return ""
        return (
            f"{self.loss}. It continues automatically from {self.resumes_from}. "
            f"Attempts lost in a row: {self.losses}; at {self.MAX_LOSSES} it fails."
        )

    @property
    def error(self) -> str:
        """Why it failed and what to do, in a sentence or two; empty if it didn't fail."""
        return f"{self.failure.get('message', '')} {self.failure.get('advice', '')}".strip()


class Event(NamedTuple):
    """Something that happened to a job, as text for people."""

    kind: str
    """taken, lost, requeued, resumed, cancelling, cancelled, failed or finished."""
    text: str


@dataclass(frozen=True)
class Kind(Generic[J]):
    """Describes a kind of job to the engine."""

    name: str
    """Its name in URLs and REST."""
    noun: str
    """Noun in sentences: "This … is finished"."""
    label: str
    """Label in lists."""
    model: type[J]
    task: Callable[[J], str]
    """The name of the Celery task that does it."""
    title: Callable[[J], str]
    url: Callable[[J], str]
    on_event: Callable[[J, Event], None] = lambda job, event: None
    """Called in the transaction that changed the job."""
    related: tuple[str, ...] = ()
    """Relations that a worker needs (select_related)."""
    listed_with: tuple[str, ...] = ()
    """Relations that lists of jobs need (select_related)."""
    attempt_defaults: dict[str, Any] = field(default_factory=dict)
    """Initial column values of every attempt."""
    webhook_events: Mapping[Phase, EventType] = field(default_factory=dict)
    """Webhook events for a job that finished, or failed for good."""
    webhook_data: Callable[[J], Mapping[str, Any]] = lambda job: {}
    """Data of its webhook events besides the job's id, name, and page."""
    is_cancellable: bool = False
    is_resumable: bool = False
    resumable: tuple[Phase, ...] = RESUMABLE
    before_resuming: Callable[[J, User | None], Mapping[str, Any]] = lambda job, by: {}
    """Additional work on resume, in the same transaction; returns column values to store."""
    lane: str = ""
    """Only one job per workspace and lane runs at a time, so that many or long jobs of one workspace leave workers to the others."""
    in_lane: models.Q = field(default_factory=models.Q)
    """Selects the jobs of this kind that are in its lane."""
    turns_at: str = ""
    """The worker queue in which workspaces take turns (`turns`), counting jobs of all kinds."""
    by_turns: models.Q = field(default_factory=models.Q)
    """Selects the jobs of this kind that are in that worker queue."""
    cancel_label: str = "Cancel"

    @property
    def rows(self) -> JobQuerySet[J]:
        return cast("JobQuerySet[J]", self.model._default_manager.all())

    @property
    def rows_in_lane(self) -> JobQuerySet[J]:
        return self.rows.filter(self.in_lane)

    @property
    def rows_by_turns(self) -> JobQuerySet[J]:
        return self.rows.filter(self.by_turns) if self.turns_at else self.rows.none()

    def state(self, phase: Phase) -> str:
        """The state in which a job of this kind enters the phase."""
        return self.model.states_in(phase)[0]

    @property
    def stops_gracefully(self) -> bool:
        """Whether its worker is asked to stop gracefully, rather than just losing the job."""
        return bool(self.model.states_in(Phase.STOPPING))


_KINDS: dict[type[Job], Kind[Any]] = {}


def register(kind: Kind[J]) -> Kind[J]:
    """Register a kind of job."""
    _KINDS[kind.model] = kind
    return kind


def kind_of_job(job: J) -> Kind[J]:
    return _KINDS[type(job)]


def kinds() -> Iterator[Kind[Any]]:
    """All kinds, in registration order."""
    yield from _KINDS.values()


def kind_named(name: str) -> Kind[Any] | None:
    return next((kind for kind in kinds() if kind.name == name), None)
