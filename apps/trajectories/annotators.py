"""Who judged trajectories, for filters and facets. Judgments belong to an app that imports this one, so it registers an implementation here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol
from uuid import UUID

from django.db.models import Q

from apps.accounts.models import Membership


class Judged(NamedTuple):
    """An annotator, and how many of a set of trajectories they judged."""

    id: UUID
    name: str
    trajectories: int


class Annotators(Protocol):
    """Lookups that the app with the judgments provides."""

    def judged_by(self, annotator: UUID) -> Q:
        """Filter for the trajectories that this annotator judged."""

    def name(self, member: Membership, annotator: UUID) -> str:
        """The name as `member` may see it; empty if there is no such annotator for them."""

    def counts(self, member: Membership, trajectories: Sequence[UUID]) -> list[Judged]:
        """Who judged some of these trajectories, those with the most first."""


_known: list[Annotators] = []


def register(annotators: Annotators) -> None:
    _known[:] = [annotators]


def judged_by(annotator: UUID) -> Q:
    return _known[0].judged_by(annotator)


def name_of(member: Membership, annotator: UUID) -> str:
    return _known[0].name(member, annotator)


def counts(member: Membership, trajectories: Sequence[UUID]) -> list[Judged]:
    return _known[0].counts(member, trajectories)
