"""When annotators see their own accuracy: delayed and in steps, so that no answer can be corrected with its help.

Somebody who saw such a figure change after an answer could undo that answer and try another until it improves, and
would learn which items are gold. So figures cover only complete stretches of answers that undo no longer reaches, and gold answers are
added in batches. Pure.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from apps.annotation.desk.actions import UNDO_REACH

STRETCH = 20
"""Answers, gold or not, per stretch. Figures change only at the end of a stretch, which reveals nothing about a single answer."""
BATCH = 10
"""Minimum number of gold answers added at once, so that a change never comes from a single one."""

T = TypeVar("T")


def settled(answers: Sequence[T]) -> Sequence[T]:
    """The prefix of somebody's valid answers, oldest first, that their figures may include.

    Undo reaches the last `UNDO_REACH` items, whether their answers are valid or just withdrawn, so answers followed by that many valid
    ones are final.
    """
    beyond = max(len(answers) - UNDO_REACH, 0)
    return answers[: beyond - beyond % STRETCH]


def batched(answers: Sequence[T], is_gold: Callable[[T], bool]) -> list[T]:
    """The gold answers among settled ones, in whole batches: those since the last batch wait until there are enough for another."""
    released: list[T] = []
    waiting: list[T] = []
    for start in range(0, len(answers), STRETCH):
        waiting += [answer for answer in answers[start : start + STRETCH] if is_gold(answer)]
        if len(waiting) >= BATCH:
            released, waiting = [*released, *waiting], []
    return released
