"""What a judgement in a queue answers: the queue's own aspects and questions, kept as `Queue.asks`. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self
from uuid import UUID

LIKERT = range(2, 11)
"""How many points a question may have."""
GRADES = {3: 1, 5: 2, 7: 3}
"""Points of an aspect's scale -> its strongest grade: 5 points are −2 … +2."""


@dataclass(frozen=True)
class Aspect:
    """A side of the comparison that is graded by itself, such as safety."""

    key: str
    name: str
    points: int = 5

    @property
    def most(self) -> int:
        return GRADES[self.points]


@dataclass(frozen=True)
class Question:
    """A rubric item: a statement or question that is answered from 1 to `points`."""

    key: str
    name: str
    points: int = 5
    low: str = ""
    """What 1 means."""
    high: str = ""
    """What the highest answer means."""
    required: bool = True

    @property
    def scale(self) -> range:
        return range(1, self.points + 1)


@dataclass(frozen=True)
class PairwiseAsks:
    """Beside which run is better."""

    aspects: tuple[Aspect, ...] = ()
    confidence: bool = False

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        return cls(tuple(Aspect(**each) for each in stored.get("aspects", ())), stored.get("confidence", False))


@dataclass(frozen=True)
class Alternatives:
    """Where better actions are sampled for annotators to choose among."""

    policy: UUID
    count: int = 4
    temperature: float = 1.0


@dataclass(frozen=True)
class StepsAsks:
    """Beside how the going-through ended."""

    every_step: bool = True
    """Whether each step needs a label, up to the first error; otherwise people label those that matter."""
    corrections: bool = True
    """Whether people may write better actions."""
    alternatives: Alternatives | None = None

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        sampled = stored.get("alternatives")
        return cls(
            every_step=stored.get("every_step", True),
            corrections=stored.get("corrections", True),
            alternatives=Alternatives(**{**sampled, "policy": UUID(sampled["policy"])}) if sampled else None,
        )


@dataclass(frozen=True)
class RatingAsks:
    """Everything that a rating answers."""

    questions: tuple[Question, ...] = ()
    thumb: bool = True
    marks: bool = True
    """Whether steps can be marked: sub-goal reached, safety violated."""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        return cls(
            tuple(Question(**each) for each in stored.get("questions", ())),
            stored.get("thumb", True),
            stored.get("marks", True),
        )


Asks = PairwiseAsks | StepsAsks | RatingAsks


def as_json(asks: Asks) -> dict[str, Any]:
    """As `Queue.asks` keeps it."""
    kept = asdict(asks)
    if kept.get("alternatives"):
        kept["alternatives"]["policy"] = str(kept["alternatives"]["policy"])
    return kept
