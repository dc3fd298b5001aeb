"""What a judgement of a single run says, apart from the database: what forms give, and what stored judgements are compared with."""

from dataclasses import dataclass, field
from typing import Any, Self
from uuid import UUID

from apps.annotation.models import Correction, Inspection, Mark, Rating, StepLabel


@dataclass(frozen=True)
class Label:
    """What is said of one step. See StepLabel."""

    index: int
    value: int
    is_filled: bool = False
    critique: str = ""
    spans: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, label: StepLabel) -> Self:
        return cls(label.index, label.value, label.is_filled, label.critique, label.spans)


@dataclass(frozen=True)
class BetterAction:
    """The message that the policy should have sent at a step; `policy` where it was sampled, not written."""

    index: int
    message: dict[str, Any]
    policy: UUID | None = None

    @classmethod
    def of(cls, correction: Correction) -> Self:
        return cls(correction.index, correction.message, correction.policy_id)

    @property
    def origin(self) -> Correction.Origin:
        return Correction.Origin.SAMPLED if self.policy else Correction.Origin.WRITTEN


@dataclass(frozen=True)
class Walk:
    """A run gone through step by step. `labels` and `corrections` in the order of their steps."""

    ending: str
    first_error: int | None = None
    labels: tuple[Label, ...] = ()
    corrections: tuple[BetterAction, ...] = ()
    rationale: str = ""

    @classmethod
    def of(cls, inspection: Inspection) -> Self:
        return cls(
            inspection.ending,
            inspection.first_error,
            tuple(Label.of(label) for label in inspection.labels.order_by("index")),
            tuple(BetterAction.of(correction) for correction in inspection.corrections.order_by("index")),
            inspection.rationale,
        )


@dataclass(frozen=True, order=True)
class MarkedStep:
    """Something that happened at a step. See Mark."""

    index: int
    kind: str
    note: str = ""

    @classmethod
    def of(cls, mark: Mark) -> Self:
        return cls(mark.index, mark.kind, mark.note)


@dataclass(frozen=True)
class Scores:
    """A run rated as a whole. `marks` in the order of their steps."""

    answers: dict[str, int] = field(default_factory=dict)
    thumb: int | None = None
    marks: tuple[MarkedStep, ...] = ()
    rationale: str = ""

    @classmethod
    def of(cls, rating: Rating) -> Self:
        marks = tuple(sorted(MarkedStep.of(mark) for mark in rating.marks.all()))
        return cls(rating.answers, rating.thumb, marks, rating.rationale)
