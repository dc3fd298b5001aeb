"""Items with a known answer: gold, mixed invisibly into ordinary work, and onboarding, which newcomers see first and get feedback on.

`Item.known` holds the answer: `{"answer": …, "because": …}`. The item's kind defines the allowed answers (`Kind.known`).
"""

from random import Random
from typing import Any, NamedTuple

from django.utils.crypto import salted_hmac

from apps.annotation.desk.claims import Slot, claim_known, has_slot
from apps.annotation.kinds import kind_of
from apps.annotation.models import Annotator, Assignment, Desk, Item, Judgment, Queue


def claim_known_item(desk: Desk, queue: Queue, annotator: Annotator) -> Slot | None:
    """An onboarding item until this person has done all of them; after that a gold item, at random and as often as the queue asks.

    Models skip onboarding, since they don't learn from feedback. A gold item comes only in place of an ordinary one: to somebody who has skipped
    all ordinary items, while others hold the rest, or if the rest are assigned to others, only gold items would come, and so stand out. So would a new
    one among skipped items that come back; the gold ones among these come back with them.
    """
    learns = annotator.kind != Annotator.Kind.MODEL
    if (
        learns
        and queue.training_count > desk.trained
        and (slot := claim_known(desk, queue, annotator, Item.Purpose.ONBOARDING))
    ):
        return slot
    if queue.gold_count and is_gold_due(desk, queue) and has_slot(desk, queue, annotator):
        return claim_known(desk, queue, annotator, Item.Purpose.GOLD)
    return None


def is_gold_due(desk: Desk, queue: Queue) -> bool:
    """Gold items fill a fixed number of every 20 (or 100) positions, drawn per desk: everybody gets some, and nobody can predict which.

    Deterministic, so asking again doesn't change the result. The seed is secret: desk numbers are sequential, so whoever knew the rest could
    compute which items are gold.
    """
    size = 20 if queue.gold_percent % 5 == 0 else 100
    block, offset = divmod(desk.offered, size)
    drawn_from = salted_hmac("places of gold items", f"{desk.pk} {block}", algorithm="sha256").digest()
    return offset in Random(drawn_from).sample(range(size), size * queue.gold_percent // 100)


def count(desk: Desk, item: Item, judgment: Judgment, by: int) -> None:
    """Count a judgment (`by` 1) or a withdrawn one (−1) on its desk, which the caller saves."""
    match item.purpose:
        case Item.Purpose.GOLD:
            desk.golds += by
            desk.golds_right += by * is_right(item, judgment)
            _add_seconds(desk, judgment, by)
        case Item.Purpose.ONBOARDING:
            desk.trained += by
            desk.trained_right += by * is_right(item, judgment)
        case _:
            desk.judged += by
            _add_seconds(desk, judgment, by)


def _add_seconds(desk: Desk, judgment: Judgment, by: int) -> None:
    desk.seconds = max(desk.seconds + by * judgment.seconds, 0.0)


def known_answer_of(item: Item) -> dict[str, Any]:
    """The known answer of a gold or onboarding item; a database constraint guarantees that there is one."""
    known: dict[str, Any] = item.known or {}
    return known


def is_right(item: Item, judgment: Judgment) -> bool:
    """Whether a judgment of a gold or onboarding item matches the known answer, ignoring its strength."""
    return bool(kind_of(judgment).as_known_answer(judgment) == known_answer_of(item)["answer"])


class Lesson(NamedTuple):
    """Feedback for a newcomer on their answer to an onboarding item."""

    is_right: bool
    expected: str
    because: str


def lesson_of(assignment: Assignment) -> Lesson | None:
    """Feedback on the judgment that closed `assignment`; None if it isn't an onboarding item."""
    if not assignment.queue.training_count or assignment.item.purpose != Item.Purpose.ONBOARDING:
        return None
    kind = kind_of(assignment.queue)
    judgment = kind.model.objects.get(assignment=assignment)
    known = known_answer_of(assignment.item)
    expected = kind.known_answer_text(known["answer"], a_is_left=assignment.a_is_left)
    return Lesson(is_right(assignment.item, judgment), expected, known.get("because", ""))


def feedback_text(lesson: Lesson) -> str:
    """The feedback as text for the desk."""
    verdict = "Right:" if lesson.is_right else "This was an onboarding item with a different answer:"
    return f"{verdict} {lesson.expected}. {lesson.because}".strip()
