"""Answers independent of the database: what forms produce, and what stored judgments are compared with."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self
from uuid import UUID

from apps.annotation.kinds.questions import Asks, StepsAsks, UnfitAnswers
from apps.annotation.models import Correction, Inspection, Mark, Preference, Rating, StepLabel
from apps.annotation.refusals import Incomplete
from contract.questions import Answers


def check_answers(
    asks: Asks, answers: Answers, step_answers: Mapping[str, Answers], *, needed: int, steps: int = 0
) -> None:
    """Raises Incomplete if answers to a queue's questions are missing or weren't asked for. The first `needed` steps must be answered."""
    if beyond := [index for index in map(int, step_answers) if index >= steps]:
        raise Incomplete(f"There is no step {beyond[0] + 1}: this trajectory has {steps}.")
    try:
        asks.check(answers, step_answers, needed)
    except UnfitAnswers as problem:
        raise Incomplete(str(problem)) from None


@dataclass(frozen=True)
class Choice:
    """A graded choice between two trajectories. See Preference."""

    strength: int
    both_bad: bool = False
    rationale: str = ""
    aspects: dict[str, int] = field(default_factory=dict)
    """Answers to comparing questions, by key."""
    confidence: int | None = None
    answers: Answers = field(default_factory=dict)
    """Answers to the other questions."""

    @classmethod
    def of(cls, preference: Preference) -> Self:
        return cls(
            preference.strength,
            preference.both_bad,
            preference.rationale,
            preference.aspects,
            preference.confidence,
            preference.answers,
        )

    @property
    def turned(self) -> Self:
        """The same choice with the pair's sides swapped."""
        aspects = {key: -grade for key, grade in self.aspects.items()}
        return replace(self, strength=-self.strength, aspects=aspects)


@dataclass(frozen=True)
class Label:
    """A label of one step. See StepLabel."""

    index: int
    value: int
    is_filled: bool = False
    critique: str = ""
    spans: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, label: StepLabel) -> Self:
        return cls(label.index, label.value, label.is_filled, label.critique, label.spans)


@dataclass(frozen=True)
class CorrectedAction:
    """The message that the policy should have sent at a step; `policy` is set if it was sampled rather than written."""

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
class InspectionAnswer:
    """A step-by-step inspection of a trajectory. `labels` and `corrections` are in step order."""

    ending: str
    first_error: int | None = None
    labels: tuple[Label, ...] = ()
    corrections: tuple[CorrectedAction, ...] = ()
    rationale: str = ""
    answers: Answers = field(default_factory=dict)
    step_answers: dict[str, Answers] = field(default_factory=dict)
    """Answers by step index."""

    @classmethod
    def of(cls, inspection: Inspection) -> Self:
        return cls(
            inspection.ending,
            inspection.first_error,
            tuple(Label.of(label) for label in inspection.labels.order_by("index")),
            tuple(CorrectedAction.of(correction) for correction in inspection.corrections.order_by("index")),
            inspection.rationale,
            inspection.answers,
            inspection.step_answers,
        )

    def check(self, asks: StepsAsks, *, steps: int) -> None:
        """Raises Incomplete, with advice, if it lacks something that the queue asks for, or contradicts itself."""
        values = {label.index: label.value for label in self.labels}
        if beyond := [index for index in (*values, *(action.index for action in self.corrections)) if index >= steps]:
            raise Incomplete(f"There is no step {beyond[0] + 1}: this trajectory has {steps}.")
        if self.corrections and not asks.corrections:
            raise Incomplete("This queue doesn't accept corrections.")
        if (self.ending == Inspection.Ending.FOUND_ERROR) != (self.first_error is not None):
            raise Incomplete("Mark the first wrong step with x, or choose another ending.")
        if self.first_error is not None and values.get(self.first_error) != -1:
            raise Incomplete(f"Step {self.first_error + 1} is marked as the first error, so it cannot be good.")
        gave_up = self.ending in (Inspection.Ending.BAD_PROBLEM, Inspection.Ending.GIVE_UP)
        needed = 0 if gave_up else steps if self.first_error is None else self.first_error + 1
        check_answers(asks, self.answers, self.step_answers, needed=needed, steps=steps)
        if not asks.every_step:
            return
        if missing := [index + 1 for index in range(needed) if index not in values]:
            shown = ", ".join(map(str, missing[:5]))
            raise Incomplete(
                f"Label step {f'{shown} and {len(missing) - 5} more' if len(missing) > 5 else shown} first."
            )


@dataclass(frozen=True, order=True)
class MarkedStep:
    """An event marked at a step. See Mark."""

    index: int
    kind: str
    note: str = ""

    @classmethod
    def of(cls, mark: Mark) -> Self:
        return cls(mark.index, mark.kind, mark.note)


@dataclass(frozen=True)
class Scores:
    """A rating of a whole trajectory. `marks` are in step order."""

    answers: Answers = field(default_factory=dict)
    thumb: int | None = None
    marks: tuple[MarkedStep, ...] = ()
    rationale: str = ""
    step_answers: dict[str, Answers] = field(default_factory=dict)

    @classmethod
    def of(cls, rating: Rating) -> Self:
        marks = tuple(sorted(MarkedStep.of(mark) for mark in rating.marks.all()))
        return cls(rating.answers, rating.thumb, marks, rating.rationale, rating.step_answers)
