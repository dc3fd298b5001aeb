"""Pairing the runs of two policies."""

from uuid import UUID

from apps.arena.matching import match


def uid(number: int) -> UUID:
    return UUID(int=number)


def test_runs_meet_within_their_task_in_order():
    task, other = uid(1), uid(2)
    matching = match(
        [(task, uid(10)), (other, uid(11)), (task, uid(12))],
        [(other, uid(21)), (task, uid(20)), (task, uid(22))],
    )
    assert matching.pairs == [(task, uid(10), uid(20)), (task, uid(12), uid(22)), (other, uid(11), uid(21))]
    assert matching.unmatched_tasks == 0


def test_a_task_that_one_side_never_finished_is_counted_not_invented():
    matching = match([(uid(1), uid(10)), (uid(2), uid(11))], [(uid(1), uid(20))])
    assert matching.pairs == [(uid(1), uid(10), uid(20))]
    assert matching.unmatched_tasks == 1


def test_a_surplus_run_stays_out():
    assert match([(uid(1), uid(10)), (uid(1), uid(11))], [(uid(1), uid(20))]).pairs == [(uid(1), uid(10), uid(20))]
