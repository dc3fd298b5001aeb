"""The questions of a queue beyond the main one, stored in `Queue.asks`. Pure. `contract.questions` defines a question."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self
from uuid import UUID

from contract.questions import Allowed, Answers, Question, asked


def comparison(key: str, name: str, points: int = 5) -> Question:
    """A comparing question about one aspect of a pair, such as safety."""
    return Question(key, name, points, required=False, type="comparison")


def field_of(question: Question) -> str:
    """The question's field name in forms and drafts."""
    return f"{'aspect' if question.type == 'comparison' else 'question'}.{question.key}"


def fields_of(asks: "Asks", answers: Mapping[str, Any]) -> dict[str, Any]:
    """Answers by field name in forms and drafts, without those to removed questions."""
    return {field_of(question): answers[question.key] for question in asks.of_items if question.key in answers}


def answer_texts(answers: Answers) -> list[str]:
    """Each answer as short text."""
    return [f"{key} {', '.join(value) if isinstance(value, list) else value}" for key, value in answers.items()]


def _kept(data: Mapping[str, Any]) -> tuple[Question, ...]:
    return tuple(Question.from_json(question) for question in data.get("questions", ()))


class UnfitAnswers(ValueError):
    """Answers are missing or weren't asked for; the message says what to do."""


@dataclass(frozen=True)
class Asks:
    """What a queue asks beyond the main question."""

    questions: tuple[Question, ...] = ()

    allowed: ClassVar[Allowed]
    usual: ClassVar[tuple[Question, ...]] = ()
    """The default questions of a new queue."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Decode `Queue.asks`."""
        return cls(questions=_kept(data))

    def to_json(self) -> dict[str, Any]:
        """Encode for `Queue.asks`."""
        return {**asdict(self), "questions": [question.to_json() for question in self.questions]}

    @property
    def of_items(self) -> list[Question]:
        return [question for question in self.questions if question.per == "item"]

    @property
    def of_steps(self) -> list[Question]:
        return [question for question in self.questions if question.per == "step"]

    def kept(self, answers: Answers) -> Answers:
        """The answers to item questions that apply. Pages without JavaScript also show and send the others."""
        keys = [question.key for question in asked(self.of_items, answers)]
        return {key: answers[key] for key in keys if key in answers}

    def kept_of_step(self, answers: Answers, of_item: Answers) -> Answers:
        """The same for one step."""
        shown = asked(self.questions, {**of_item, **answers})
        keys = [question.key for question in shown if question.per == "step"]
        return {key: answers[key] for key in keys if key in answers}

    def check(self, answers: Answers, of_steps: Mapping[str, Answers], needed: int) -> None:
        """Raises UnfitAnswers. `needed`: the number of steps, from the first, that must be answered."""
        _check(self.of_items, answers, asked(self.of_items, answers), "")
        for index in sorted({*map(int, of_steps), *range(needed if self.of_steps else 0)}):
            answers_of_step = of_steps.get(str(index), {})
            shown = [
                question for question in asked(self.questions, {**answers, **answers_of_step}) if question.per == "step"
            ]
            required = shown if index < needed else []
            _check(self.of_steps, answers_of_step, required, f" at step {index + 1}")


def _check(questions: Sequence[Question], answers: Answers, required: Sequence[Question], where: str) -> None:
    questions_by_key = {question.key: question for question in questions}
    for key, value in answers.items():
        if key not in questions_by_key or not questions_by_key[key].takes(value):
            raise UnfitAnswers(f"“{key}” cannot be answered with {value}{where} in this queue. Reload the page.")
    for question in required:
        if question.required and question.key not in answers:
            raise UnfitAnswers(
                f"Answer “{question.name}”{where} first. If it isn't on the page, reload: it was added meanwhile."
            )


@dataclass(frozen=True)
class PairwiseAsks(Asks):
    """Questions in addition to which trajectory is better."""

    confidence: bool = False

    allowed = Allowed(comparisons=True, steps=False)
    usual = (
        comparison("task-success", "Task success"),
        comparison("efficiency", "Efficiency"),
        comparison("safety", "Safety"),
        comparison("communication", "Communication"),
    )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(_kept(data), data.get("confidence", False))


MAX_ALTERNATIVES = 9


@dataclass(frozen=True)
class Alternatives:
    """Where corrections are sampled from, for annotators to choose among."""

    policy: UUID
    count: int = 4
    """1 to MAX_ALTERNATIVES."""
    temperature: float = 1.0


@dataclass(frozen=True, kw_only=True)
class StepsAsks(Asks):
    """Questions in addition to the ending of the inspection."""

    every_step: bool = True
    """Whether each step up to the first error needs a label; otherwise people label only the steps that matter."""
    corrections: bool = True
    """Whether people may write corrections."""
    alternatives: Alternatives | None = None

    allowed = Allowed(comparisons=False, steps=True)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        sampled = data.get("alternatives")
        return cls(
            questions=_kept(data),
            every_step=data.get("every_step", True),
            corrections=data.get("corrections", True),
            alternatives=Alternatives(**{**sampled, "policy": UUID(sampled["policy"])}) if sampled else None,
        )

    def to_json(self) -> dict[str, Any]:
        data = super().to_json()
        if self.alternatives:
            data["alternatives"]["policy"] = str(self.alternatives.policy)
        return data


@dataclass(frozen=True)
class RatingAsks(Asks):
    """The content of a rating."""

    thumb: bool = True
    marks: bool = True
    """Whether steps can be marked: sub-goal reached, safety violated."""

    allowed = Allowed(comparisons=False, steps=True)
    usual = (
        Question("how-well-was-the-task-done", "How well was the task done?", 5, "not at all", "perfectly"),
        Question("how-pleasant-was-it-to-work-with", "How pleasant was it to work with?", 5, "awful", "a joy"),
    )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        questions = _kept(data)
        return cls(questions, data.get("thumb", True), data.get("marks", True))

    def opinion(self, thumb: int | None, answers: Answers) -> int:
        """Whether a rating accepts the trajectory: the thumb or, without one, whether the answers average above or below the middle of their scales.

        +1, −1, or 0 for neither. Choices and free text are ignored.
        """
        if thumb is not None:
            return thumb
        scales = {question.key: question for question in self.questions if question.type == "scale"}
        total = Fraction()  # floats that cancel out may add up to a trace of either side
        for key, value in answers.items():
            if isinstance(value, int) and key in scales:
                total += Fraction(value - 1, scales[key].points - 1) - Fraction(1, 2)
        return int(total > 0) - int(total < 0)
