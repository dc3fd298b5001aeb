"""The standing judgements of a queue as plain numbers: what each says, by measure, and how it came about."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import F

from apps.annotation.asking import PairwiseAsks, RatingAsks
from apps.annotation.desk.checking import is_right
from apps.annotation.models import (
    JUDGEMENTS,
    Annotator,
    Inspection,
    Item,
    Judgement,
    Preference,
    Queue,
    Rating,
    StepLabel,
)

ENDINGS = {ending: n for n, ending in enumerate(Inspection.Ending.values)}
AT_ONCE = 10_000


class Given(NamedTuple):
    """What one annotator said of one thing: an item, or a step of it."""

    annotator: UUID
    item: int
    thing: Hashable
    value: int


class Work(NamedTuple):
    """One judgement, whatever it says."""

    annotator: UUID
    item: int
    at: datetime
    seconds: float | None
    """None of a model or a rule, which take no time worth telling, and of what was judged elsewhere."""
    chose_left: bool | None
    """None where no side was chosen, or nothing says which side it was."""
    is_right: bool | None = None
    """Of a gold item: whether it says what is known."""


@dataclass
class Measure:
    """One thing that every judgement of a queue answers."""

    key: str
    name: str
    values: Sequence[int]
    """In their order; or without one, where `ordered` is false."""
    ordered: bool = True
    sides: bool = False
    """Grades in favour of a run: which run it is matters most, so chance-corrected figures are given for that as well."""
    given: list[Given] = field(default_factory=list)


@dataclass
class Gathered:
    """Everything that quality is measured from. The first measure is the one that people are compared by."""

    measures: list[Measure]
    work: list[Work] = field(default_factory=list)
    golds: list[Work] = field(default_factory=list)
    """Judgements of gold items: they take time and have sides, and no part in agreement."""
    machines: frozenset[UUID] = frozenset()
    """Of the annotators, those that are models or rules."""


def gather(queue: Queue) -> Gathered:
    """All standing judgements of `queue`, oldest first."""
    found = _GATHER[Queue.Kind(queue.kind)](queue)
    found.golds = _golds(queue)
    machines = Annotator.objects.filter(desks__queue=queue).exclude(kind=Annotator.Kind.PERSON)
    found.machines = frozenset(machines.values_list("pk", flat=True))
    return found


def _golds(queue: Queue) -> list[Work]:
    model: Any = JUDGEMENTS[Queue.Kind(queue.kind)].objects
    rows = model.standing().filter(queue=queue, item__purpose=Item.Purpose.GOLD).order_by("pk")
    return [_gold(each) for each in rows.select_related("item", "annotator", "queue").iterator(chunk_size=AT_ONCE)]


def _gold(judged: Judgement) -> Work:
    seconds = judged.seconds if judged.annotator.kind == Annotator.Kind.PERSON else None
    chose_left = (
        (judged.strength > 0) == judged.a_was_left if isinstance(judged, Preference) and judged.strength else None
    )
    right = is_right(judged.item, judged)
    return Work(judged.annotator_id, judged.item_id, judged.created_at, seconds, chose_left, right)


def _preferences(queue: Queue) -> Gathered:
    asked = PairwiseAsks.from_json(queue.asks).aspects
    better = Measure("better", "Which run is better", range(-3, 4), sides=True)
    aspects = [Measure(each.key, each.name, range(-each.most, each.most + 1), sides=True) for each in asked]
    found = Gathered([better, *aspects])
    columns = ["strength", "a_was_left", *(["aspects"] if aspects else [])]
    for (who, item, at, seconds), (strength, a_was_left, *graded) in _rows(Preference, queue, columns):
        better.given.append(Given(who, item, item, strength))
        sided = strength and a_was_left is not None
        found.work.append(Work(who, item, at, seconds, (strength > 0) == a_was_left if sided else None))
        _answered(aspects, who, item, graded[0] if graded else {})
    return found


def _ratings(queue: Queue) -> Gathered:
    asked = RatingAsks.from_json(queue.asks)
    thumb = [Measure("thumb", "Thumb", (-1, 1))] if asked.thumb else []
    questions = [Measure(each.key, each.name, each.scale) for each in asked.questions]
    found = Gathered([*questions, *thumb])
    for (who, item, at, seconds), (answers, up) in _rows(Rating, queue, ["answers", "thumb"]):
        found.work.append(Work(who, item, at, seconds, None))
        _answered(questions, who, item, answers)
        if thumb and up is not None:
            thumb[0].given.append(Given(who, item, item, up))
    found.measures.sort(key=lambda measure: -len(measure.given))  # a question that was added late says little of people
    return found


def _inspections(queue: Queue) -> Gathered:
    ending = Measure("ending", "How it ended", range(len(ENDINGS)), ordered=False)
    steps = Measure("steps", "Label of a step", (-1, 0, 1))
    found = Gathered([ending, steps])
    for (who, item, at, seconds), (ended,) in _rows(Inspection, queue, ["ending"]):
        ending.given.append(Given(who, item, item, ENDINGS[ended]))
        found.work.append(Work(who, item, at, seconds, None))
    # After a first error everything is filled in as bad, which nobody said: it would agree however far apart the errors are. Before
    # it everything is filled in as good, and that is what a first error says.
    standing = (
        StepLabel.objects.filter(
            inspection__queue=queue, inspection__retracted_at=None, inspection__item__purpose="work"
        )
        .exclude(is_filled=True, index__gt=F("inspection__first_error"))
        .order_by("pk")
    )
    labels = standing.values_list("inspection__annotator", "inspection__item", "index", "value")
    for who, item, index, value in labels.iterator(chunk_size=AT_ONCE):
        steps.given.append(Given(who, item, (item, index), value))
    return found


def _answered(measures: Sequence[Measure], who: UUID, item: int, answers: dict[str, Any]) -> None:
    for measure in measures:
        value = answers.get(measure.key)
        if value is not None and value in measure.values:
            measure.given.append(Given(who, item, item, value))


def _rows(
    model: type[Preference] | type[Rating] | type[Inspection], queue: Queue, columns: Sequence[str]
) -> Iterator[tuple[tuple[UUID, int, datetime, float | None], tuple[Any, ...]]]:
    """Who, item, when and, of people, seconds of each judgement; and its own columns."""
    standing: Any = model.objects  # the three managers have no type in common
    rows = standing.standing().filter(queue=queue, item__purpose=Item.Purpose.WORK).order_by("pk")
    found = rows.values_list(
        "annotator", "item", "created_at", "seconds", "annotator__kind", "annotator__source", *columns
    )
    for who, item, at, seconds, kind, source, *own in found.iterator(chunk_size=AT_ONCE):
        yield (who, item, at, seconds if kind == Annotator.Kind.PERSON and not source else None), tuple(own)


_GATHER: dict[Queue.Kind, Callable[[Queue], Gathered]] = {
    Queue.Kind.PAIRWISE: _preferences,
    Queue.Kind.STEPS: _inspections,
    Queue.Kind.RATING: _ratings,
}
