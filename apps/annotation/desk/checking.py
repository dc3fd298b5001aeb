"""Items whose answer is known: gold, slipped in among the others unseen, and training, which newcomers see first and learn from.

A known answer is what `Item.known` keeps: `{"answer": …, "because": …}`. The answer of a pair is +1 (run a is better), 0 (neither)
or −1 (run b); of a run that is gone through, the index of its first error or "none"; of a rated run, +1 (good) or −1 (bad), as
`RatingAsks.opinion` reads a rating.
"""

from random import Random
from typing import Any, NamedTuple

from apps.annotation.asking import RatingAsks
from apps.annotation.desk.taking import Place, take_known
from apps.annotation.models import (
    JUDGEMENTS,
    Annotator,
    Assignment,
    Desk,
    Inspection,
    Item,
    Judgement,
    Preference,
    Queue,
    Rating,
)

NO_ERROR = "none"


def take_check(desk: Desk, queue: Queue, annotator: Annotator) -> Place | None:
    """A training item while this person has not done all of them; then, at chance and as often as the queue asks, a gold item.

    Models learn nothing by being told, so they go without training.
    """
    learns = annotator.kind != Annotator.Kind.MODEL
    if (
        learns
        and queue.training_count > desk.trained
        and (place := take_known(desk, queue, annotator, Item.Purpose.TRAINING))
    ):
        return place
    if queue.gold_count and is_gold_due(desk, queue):
        return take_known(desk, queue, annotator, Item.Purpose.GOLD)
    return None


def is_gold_due(desk: Desk, queue: Queue) -> bool:
    """So many of every 20 (or 100) items, at places drawn for this desk: nobody gets none by bad luck, or can tell which come.

    Asking again does not roll the dice again.
    """
    size = 20 if queue.gold_percent % 5 == 0 else 100
    block, place = divmod(desk.offered, size)
    return place in Random(f"{desk.pk} {block}").sample(range(size), size * queue.gold_percent // 100)


def count(desk: Desk, item: Item, judgement: Judgement, by: int) -> list[str]:
    """Count a judgement (`by` 1) or one that was taken back (−1) on its desk, which the caller saves: the columns that changed."""
    match item.purpose:
        case Item.Purpose.GOLD:
            desk.golds += by
            desk.golds_right += by * is_right(item, judgement)
            _take_time(desk, judgement, by)
            return ["golds", "golds_right", "seconds"]
        case Item.Purpose.TRAINING:
            desk.trained += by
            desk.trained_right += by * is_right(item, judgement)
            return ["trained", "trained_right"]
        case _:
            desk.judged += by
            _take_time(desk, judgement, by)
            return ["judged", "seconds"]


def _take_time(desk: Desk, judgement: Judgement, by: int) -> None:
    desk.seconds = max(desk.seconds + by * judgement.seconds, 0.0)


def known_of(item: Item) -> dict[str, Any]:
    """What is known of a gold or training item; the database sees to it that there is something."""
    known: dict[str, Any] = item.known or {}
    return known


def is_right(item: Item, judgement: Judgement) -> bool:
    """Whether a judgement of a gold or training item says what is known. How strongly it says so does not matter."""
    return bool(answer_of(judgement) == known_of(item)["answer"])


def answer_of(judgement: Judgement) -> int | str | None:
    """A judgement in the terms of known answers; None where it says nothing of the kind."""
    if isinstance(judgement, Preference):
        return (judgement.strength > 0) - (judgement.strength < 0)
    if isinstance(judgement, Inspection):
        solved = judgement.ending == Inspection.Ending.SOLVED
        return NO_ERROR if solved else judgement.first_error
    assert isinstance(judgement, Rating), "there are three kinds"
    return RatingAsks.from_json(judgement.queue.asks).opinion(judgement.thumb, judgement.answers)


def words(queue: Queue, answer: int | str, *, a_is_left: bool = True) -> str:
    """A known answer for the person who judged: of a pair, by the side that they saw it on."""
    match queue.kind:
        case Queue.Kind.PAIRWISE:
            return (
                "neither is better" if answer == 0 else f"{'left' if (answer == 1) == a_is_left else 'right'} is better"
            )
        case Queue.Kind.STEPS:
            return "there is no error" if answer == NO_ERROR else f"the first error is step {int(answer) + 1}"
        case _:
            return "it is a good run" if answer == 1 else "it is a bad run"


class Lesson(NamedTuple):
    """What a newcomer is told of their answer to a training item."""

    is_right: bool
    expected: str
    because: str


def taught(assignment: Assignment) -> Lesson | None:
    """Of the judgement that closed `assignment`; None where the item is no training item."""
    if not assignment.queue.training_count or assignment.item.purpose != Item.Purpose.TRAINING:
        return None
    judgement = JUDGEMENTS[Queue.Kind(assignment.queue.kind)].objects.get(assignment=assignment)
    known = known_of(assignment.item)
    expected = words(assignment.queue, known["answer"], a_is_left=assignment.a_is_left)
    return Lesson(is_right(assignment.item, judgement), expected, known.get("because", ""))


def in_words(lesson: Lesson) -> str:
    """For the desk."""
    verdict = "Right:" if lesson.is_right else "This was practice, and the answer is another one:"
    return f"{verdict} {lesson.expected}. {lesson.because}".strip()
