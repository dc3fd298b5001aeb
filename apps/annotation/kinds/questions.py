"""What a judgment in a queue answers: the queue's own aspects and questions, kept as `Queue.asks`. Pure.

Researchers write aspects and questions one a line; `read_aspects` and `read_questions` say what a line may be.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Self, TypeVar
from uuid import UUID

from django.utils.text import slugify

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

    @property
    def grades(self) -> range:
        """What favors the left trajectory first."""
        return range(self.most, -self.most - 1, -1)


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


class AskedRow(NamedTuple):
    """An aspect or a question as the desk asks it."""

    key: str
    field: str
    """Its name in forms and drafts."""
    values: Sequence[int]
    """In the order in which they are shown: of an aspect, what favors the left trajectory first."""


@dataclass(frozen=True)
class Asks:
    """What a queue asks beside the main thing."""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """From `Queue.asks`."""
        return cls()

    @property
    def rows(self) -> list[AskedRow]:
        """What is answered with one of a few values each."""
        return []

    @property
    def more(self) -> "More | None":
        """What may be asked in addition while people are at work; None where nothing may."""
        return None

    def with_more(self, lines: str) -> Self:
        """These, and what `lines` ask behind them. Raises UnreadableLine."""
        return self

    def to_json(self) -> dict[str, Any]:
        """As `Queue.asks` keeps it."""
        return asdict(self)


class More(NamedTuple):
    """How a researcher adds to what is asked."""

    label: str
    line: str
    """What a line may be."""
    asked: tuple[str, ...]
    """Names that are taken."""


@dataclass(frozen=True)
class PairwiseAsks(Asks):
    """Beside which trajectory is better."""

    aspects: tuple[Aspect, ...] = ()
    confidence: bool = False

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        return cls(tuple(Aspect(**each) for each in stored.get("aspects", ())), stored.get("confidence", False))

    @property
    def rows(self) -> list[AskedRow]:
        return [AskedRow(each.key, aspect_field(each.key), each.grades) for each in self.aspects]

    @property
    def more(self) -> More:
        line = "“Safety: 3” has a scale of 3 points instead of 5 (or 7)"
        return More("More aspects", line, tuple(each.name for each in self.aspects))

    def with_more(self, lines: str) -> Self:
        return replace(self, aspects=self.aspects + _not_among(self.aspects, read_aspects(lines)))


@dataclass(frozen=True)
class Alternatives:
    """Where better actions are sampled for annotators to choose among."""

    policy: UUID
    count: int = 4
    temperature: float = 1.0


@dataclass(frozen=True)
class StepsAsks(Asks):
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

    def to_json(self) -> dict[str, Any]:
        kept = super().to_json()
        if self.alternatives:
            kept["alternatives"]["policy"] = str(self.alternatives.policy)
        return kept


@dataclass(frozen=True)
class RatingAsks(Asks):
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

    @property
    def rows(self) -> list[AskedRow]:
        return [AskedRow(each.key, question_field(each.key), each.scale) for each in self.questions]

    @property
    def more(self) -> More:
        line = "question | points | what 1 means | what the most means"
        return More("More questions", line, tuple(each.name for each in self.questions))

    def with_more(self, lines: str) -> Self:
        return replace(self, questions=self.questions + _not_among(self.questions, read_questions(lines)))

    def opinion(self, thumb: int | None, answers: Mapping[str, int]) -> int:
        """Whether a rating accepts the trajectory: the thumb; without one, which half of their scales the answers lie in on average.

        +1, −1, or 0 for neither.
        """
        if thumb is not None:
            return thumb
        points = {question.key: question.points for question in self.questions}
        total = sum((value - 1) / (points[key] - 1) - 0.5 for key, value in answers.items() if key in points)
        return int(total > 0) - int(total < 0)


def aspect_field(key: str) -> str:
    return f"aspect.{key}"


def question_field(key: str) -> str:
    return f"question.{key}"


class UnreadableLine(ValueError):
    """A line that is no aspect or question: what was given, what was expected."""


DEFAULT_ASPECTS = "Task success\nEfficiency\nSafety\nCommunication"


def read_aspects(text: str) -> tuple[Aspect, ...]:
    """A line an aspect: its name, and after a colon how many points its scale has (3, 5 or 7). Raises UnreadableLine."""
    aspects: list[Aspect] = []
    for line in _lines(text):
        name, _, points = (part.strip() for part in line.partition(":"))
        if points not in ("", "3", "5", "7"):
            raise UnreadableLine(f"“{line}”: after the colon stands {points!r}; expected 3, 5 or 7 points.")
        aspects.append(Aspect(_key(name, line, [each.key for each in aspects]), name, int(points or 5)))
    return tuple(aspects)


OPTIONAL = "(optional)"


def read_questions(text: str) -> tuple[Question, ...]:
    """A line a question, its parts between bars: what is asked | points | what 1 means | what the most means.

    All but the first may be left out. A question that ends with (optional), or the end of whose line does, may stay open. Raises UnreadableLine.
    """
    questions: list[Question] = []
    for line in _lines(text):
        parts = [part.strip() for part in _without_mark(line).split("|")]
        name, points, low, high = [_without_mark(parts[0]), *parts[1:], "", "", ""][:4]
        required = parts[0] == name and _without_mark(line) == line
        if len(parts) > 4 or not (points == "" or (points.isdecimal() and int(points) in LIKERT)):
            raise UnreadableLine(f"“{line}”: expected question | 2 to 10 points | what 1 means | what the most means.")
        key = _key(name, line, [each.key for each in questions])
        questions.append(Question(key, name, int(points or 5), low, high, required))
    return tuple(questions)


def _without_mark(text: str) -> str:
    return text[: -len(OPTIONAL)].strip() if text.lower().endswith(OPTIONAL) else text


R = TypeVar("R", Aspect, Question)


def _not_among(asked: tuple[R, ...], more: tuple[R, ...]) -> tuple[R, ...]:
    keys = {each.key for each in asked}
    if again := [each.name for each in more if each.key in keys]:
        raise UnreadableLine(f"“{again[0]}” already exists and can't be changed. Remove that line.")
    return more


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _key(name: str, line: str, taken: list[str]) -> str:
    key = slugify(name, allow_unicode=True)[:60]
    if not key:
        raise UnreadableLine(f"“{line}” has no name.")
    if key in taken:
        raise UnreadableLine(f"“{name}” is there twice.")
    return key
