"""Pairing the runs of two policies."""

from uuid import UUID

from apps.arena.pairs import Attempt, match


def uid(number: int) -> UUID:
    return UUID(int=number)


def attempt(task: int, run: int, course: int | None = None) -> Attempt:
    return Attempt(uid(task), uid(run), course)


def test_runs_meet_within_their_task_in_order():
    matching = match(
        [attempt(1, 10), attempt(2, 11), attempt(1, 12)],
        [attempt(2, 21), attempt(1, 20), attempt(1, 22)],
    )
    assert matching.pairs == [(uid(1), uid(10), uid(20)), (uid(1), uid(12), uid(22)), (uid(2), uid(11), uid(21))]
    assert (matching.unmatched_tasks, matching.alike) == (0, [])


def test_a_task_that_one_side_never_finished_is_counted_not_invented():
    matching = match([attempt(1, 10), attempt(2, 11)], [attempt(1, 20)])
    assert matching.pairs == [(uid(1), uid(10), uid(20))]
    assert matching.unmatched_tasks == 1


def test_a_surplus_run_stays_out():
    assert match([attempt(1, 10), attempt(1, 11)], [attempt(1, 20)]).pairs == [(uid(1), uid(10), uid(20))]


def test_runs_that_cannot_be_told_apart_are_no_pair_but_keep_their_place():
    matching = match(
        [attempt(1, 10, 7), attempt(2, 11, 7), attempt(3, 12, 7), attempt(4, 13)],
        [attempt(1, 20, 7), attempt(2, 21, 8), attempt(3, 22, 7), attempt(4, 23)],
    )
    assert [pair.task for pair in matching.pairs] == [uid(2), uid(4)]  # the last two have no recorded course
    assert matching.alike == [(uid(1), 0), (uid(3), 1)]
