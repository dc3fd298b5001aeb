"""The kinds of jobs that there are. Each app registers its own when it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, cast

from apps.accounts.models import User
from apps.jobs.models import RESUMABLE, J, Job, JobQuerySet, Phase


class Event(NamedTuple):
    """Something that happened to a job, in words for people."""

    kind: str
    """taken, lost, requeued, resumed, cancelling, cancelled, failed or finished."""
    text: str


@dataclass(frozen=True)
class Kind(Generic[J]):
    """What the engine must know of a kind of job."""

    name: str
    """In the address of a list, and over REST."""
    noun: str
    """As a sentence calls one: "This … is finished"."""
    label: str
    """As a list calls one."""
    model: type[J]
    task: Callable[[J], str]
    """The name of the Celery task that does it."""
    title: Callable[[J], str]
    url: Callable[[J], str]
    on_event: Callable[[J, Event], None] = lambda job, event: None
    """Is called within the transaction that changed the job."""
    related: tuple[str, ...] = ()
    """What a worker reads together with it."""
    listed_with: tuple[str, ...] = ()
    """What a row of a list names."""
    afresh: dict[str, Any] = field(default_factory=dict)
    """Columns that every attempt begins with."""
    is_cancellable: bool = False
    is_resumable: bool = False
    resumable: tuple[Phase, ...] = RESUMABLE
    before_resuming: Callable[[J, User | None], Mapping[str, Any]] = lambda job, by: {}
    """Does what else must be done, in the same transaction; returns columns to begin again with."""
    cancel_words: str = "Cancel"

    @property
    def rows(self) -> JobQuerySet[J]:
        return cast("JobQuerySet[J]", self.model._default_manager.all())

    def state(self, phase: Phase) -> str:
        """By which a job of this kind enters the phase."""
        return self.model.states_in(phase)[0]

    @property
    def can_stop_slowly(self) -> bool:
        """Whether its worker is asked to stop, and not just finds its job gone."""
        return bool(self.model.states_in(Phase.STOPPING))


_KINDS: dict[type[Job], Kind[Any]] = {}


def register(kind: Kind[J]) -> Kind[J]:
    """Let the engine look after a kind of job."""
    _KINDS[kind.model] = kind
    return kind


def kind_of_job(job: J) -> Kind[J]:
    return _KINDS[type(job)]


def kinds() -> Iterator[Kind[Any]]:
    """All of them, as they were registered."""
    yield from _KINDS.values()


def kind_named(name: str) -> Kind[Any] | None:
    return next((kind for kind in kinds() if kind.name == name), None)
