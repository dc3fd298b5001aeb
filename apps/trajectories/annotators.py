"""Who judged trajectories, for filters and facets. Judgments belong to an app that imports this one, so it says here how to find out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from django.db.models import Q

from apps.accounts.models import Membership


class Judged(NamedTuple):
    """An annotator, and how many of some trajectories they judged."""

    id: UUID
    name: str
    runs: int


class Annotators(Protocol):
    """What is known of annotators."""

    def judged_by(self, annotator: UUID) -> Q:
        """The trajectories that this annotator judged."""

    def name(self, member: Membership, annotator: UUID) -> str:
        """As `member` may read it; empty where there is no such annotator for them."""

    def counts(self, member: Membership, trajectories: Sequence[UUID]) -> list[Judged]:
        """Who judged some of these, the busiest first."""


_known: list[Annotators] = []


def register(annotators: Annotators) -> None:
    _known[:] = [annotators]


def judged_by(annotator: UUID) -> Q:
    return _known[0].judged_by(annotator)


def name_of(member: Membership, annotator: UUID) -> str:
    return _known[0].name(member, annotator)


def counts(member: Membership, trajectories: Sequence[UUID]) -> list[Judged]:
    return _known[0].counts(member, trajectories)
