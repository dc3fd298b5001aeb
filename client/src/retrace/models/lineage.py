"""What something came from, and what learned from it."""

from __future__ import annotations

from retrace.models.answer import Answer


class Named(Answer):
    """Something with a name."""

    id: str
    name: str


class Term(Answer):
    """The term of a reward through which something was learned."""

    term: str  # Its name in the training run's curves.
    component: str
    weight: float


class Origin(Answer):
    """A policy, indented below what descends from it."""

    depth: int
    policy: Named
    kind: str
    reward: Term | None  # The reward term that it is in the training run above; null: the training run began from it.
    run: Named | None  # The training run that made it.
    version: Named | None  # The rows that this training run learned from.
    judgments: int  # In those rows.
    is_repeated: bool  # What is below it stands further up already.


class Learner(Answer):
    """A training run and what it made, indented below what it learned from."""

    depth: int
    run: Named | None
    algorithm: str | None
    state: str | None
    policy: Named | None  # What it made.
    reward: Term | None  # The reward term through which it learned.
    version: Named | None  # The rows that it learned from.
    is_repeated: bool


class Lineage(Answer):
    """Both directions."""

    origins: list[Origin]
    versions: list[Named]  # Whose rows hold the judgment, or one of the item or trajectory.
    learners: list[Learner]
