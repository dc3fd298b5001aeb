"""The valid judgments of a queue as plain numbers: the values by measure, and the circumstances."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from apps.annotation.models import Annotator, Item, Queue
from apps.annotation.models.judgments import JudgmentQuerySet
from contract.questions import Question

AT_ONCE = 10_000


class UnitValue(NamedTuple):
    """One annotator's value for one unit: an item, or a step of it."""

    annotator: UUID
    item: int
    unit: Hashable
    value: int


class Work(NamedTuple):
    """One judgment's circumstances, independent of its content."""

    annotator: UUID
    item: int
    at: datetime
    seconds: float | None
    """None for a model or a rule, whose time is irrelevant, and for judgments made elsewhere."""
    chose_left: bool | None = None
    """None if no side was chosen, or the sides weren't recorded."""
    is_right: bool | None = None
    """For a gold item: whether it matches the known answer."""
    least_seconds: float = 0.0
    """Minimum time to read the item."""


@dataclass
class Measure:
    """One question that every judgment of a queue answers."""

    key: str
    name: str
    values: Sequence[int]
    """In order, unless `ordered` is false."""
    ordered: bool = True
    sides: bool = False
    """Whether values are grades in favor of a trajectory. Chance-corrected figures are then also given for the direction alone."""
    answers: list[UnitValue] = field(default_factory=list)

    def add(self, work: Work, value: int | None) -> None:
        """Add a judgment's value for its item, if it has one."""
        if value is not None and value in self.values:
            self.answers.append(UnitValue(work.annotator, work.item, work.item, value))


class QuestionMeasures:
    """The measures of a queue's questions: multiple choice has one per option, free text has none."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._of: list[tuple[Question, list[Measure]]] = [(question, _measures_of(question)) for question in questions]

    @property
    def all(self) -> list[Measure]:
        return [measure for _, measures in self._of for measure in measures]

    def add(self, work: Work, answers: Mapping[str, Any], step_answers: Mapping[str, Mapping[str, Any]]) -> None:
        """Add a judgment's answers about its item and its steps."""
        for question, measures in self._of:
            if question.per == "item":
                _add(question, measures, answers.get(question.key), work, work.item)
                continue
            for index, answers_of_step in step_answers.items():
                _add(question, measures, answers_of_step.get(question.key), work, (work.item, int(index)))


def _measures_of(question: Question) -> list[Measure]:
    match question.type:
        case "comparison":
            return [Measure(question.key, question.name, range(-question.most, question.most + 1), sides=True)]
        case "scale":
            return [Measure(question.key, question.name, range(1, question.points + 1))]
        case "choice":
            return [Measure(question.key, question.name, range(len(question.options)), ordered=False)]
        case "choices":
            names = (f"{question.name} {option}" for option in question.options)
            return [Measure(f"{question.key}.{n}", name, (0, 1), ordered=False) for n, name in enumerate(names)]
        case "text":
            return []


def _add(question: Question, measures: Sequence[Measure], answer: Any, work: Work, unit: Hashable) -> None:
    if answer is None:
        return
    match question.type:
        case "choice":
            values = [question.options.index(answer) if answer in question.options else -1]
        case "choices":
            values = [int(option in answer) for option in question.options]
        case _:
            values = [answer]
    for measure, value in zip(measures, values, strict=False):
        if value in measure.values:
            measure.answers.append(UnitValue(work.annotator, work.item, unit, value))


@dataclass
class Gathered:
    """All data for quality figures. People are compared by the first measure."""

    measures: list[Measure]
    work: list[Work] = field(default_factory=list)
    golds: list[Work] = field(default_factory=list)
    """Judgments of gold items: they count for times and sides, but not for agreement."""
    machines: frozenset[UUID] = frozenset()
    """The annotators that are models or rules."""


def read(judgments: JudgmentQuerySet[Any], queue: Queue, *columns: str) -> Iterator[tuple[Work, Mapping[str, Any]]]:
    """The judgments of a queue's ordinary items, oldest first, each with the given columns. Excludes feedback of an agent's users."""
    rows = judgments.filter(queue=queue, item__purpose=Item.Purpose.WORK).order_by("pk")
    rows = rows.exclude(annotator__kind=Annotator.Kind.USER)
    shared = ("annotator", "item", "created_at", "seconds", "annotator__kind", "annotator__source")
    for annotator_id, item, at, seconds, kind, source, *values in rows.values_list(*shared, *columns).iterator(
        chunk_size=AT_ONCE
    ):
        is_timed = kind == Annotator.Kind.PERSON and not source
        yield Work(annotator_id, item, at, seconds if is_timed else None), dict(zip(columns, values, strict=True))
