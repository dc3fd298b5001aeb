"""Where an object came from, and what learned from it."""

from __future__ import annotations

from retrace.models.answer import Answer


class Named(Answer):
    """An object with a name."""

    id: str
    name: str


class Term(Answer):
    """The reward term through which something was learned."""

    term: str  # The term's name in the training run's curves.
    component: str
    weight: float


class Origin(Answer):
    """A policy, indented below its descendants."""

    depth: int
    policy: Named
    kind: str
    reward: Term | None  # Its reward term in the training run above; null: the run started from it.
    run: Named | None  # The training run that made it.
    version: Named | None  # The rows that this training run learned from.
    judgments: int  # Number of judgments in those rows.
    is_repeated: bool  # Its origins are listed further up already.


class Learner(Answer):
    """A training run and its result, indented below what it learned from."""

    depth: int
    run: Named | None
    algorithm: str | None
    state: str | None
    policy: Named | None  # The resulting policy.
    reward: Term | None  # The reward term through which it was trained.
    version: Named | None  # The rows that it learned from.
    is_repeated: bool


class Lineage(Answer):
    """Both directions."""

    origins: list[Origin]
    versions: list[Named]  # Versions whose rows include the judgment, or a judgment of the item or trajectory.
    learners: list[Learner]
    has_more: bool  # Whether a list has more than the 200 entries given.
