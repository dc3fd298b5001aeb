"""What annotators are told of how right they were, and when: late and in steps, so that no answer can be mended by it.

Somebody who saw such a figure move after an answer could take that answer back and give another until it moved the right way, and
would learn which items are gold. So a figure rests on whole stretches of answers that undo no longer reaches, and gold joins it in
batches. Pure.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from apps.annotation.desk.actions import UNDO_REACH

STRETCH = 20
"""Answers, gold or not. Figures move only when a stretch ends, which says nothing about any one of its answers."""
BATCH = 10
"""Gold answers that come into the figure together, at the least: what it moves by is never a single one."""

T = TypeVar("T")


def settled(answers: Sequence[T]) -> Sequence[T]:
    """Of somebody's standing answers, oldest first, those that their figures rest on.

    Undo reaches the last `UNDO_REACH` items, whether their answers stand or were just taken back; so what has as many standing answers
    after it stays as it is.
    """
    beyond = max(len(answers) - UNDO_REACH, 0)
    return answers[: beyond - beyond % STRETCH]


def batched(answers: Sequence[T], is_gold: Callable[[T], bool]) -> list[T]:
    """The gold among settled answers, a batch at a time: what came since the last batch waits until there is enough for another."""
    told: list[T] = []
    waiting: list[T] = []
    for start in range(0, len(answers), STRETCH):
        waiting += [answer for answer in answers[start : start + STRETCH] if is_gold(answer)]
        if len(waiting) >= BATCH:
            told, waiting = [*told, *waiting], []
    return told
