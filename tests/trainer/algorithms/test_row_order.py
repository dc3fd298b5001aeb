"""The order of rows: every row once per epoch, sorted by length within a step, and reproducible for a seed."""

from trainer.algorithms.row_order import order_of_rows


def test_each_pass_has_every_row_once_in_another_order():
    lengths = [(7 * place) % 40 for place in range(40)]
    order = order_of_rows(lengths, together=8, count=80, seed=1)
    assert sorted(order[:40]) == sorted(order[40:]) == list(range(40))
    assert order[:40] != order[40:]


def test_the_rows_of_a_step_are_sorted_by_length_and_steps_are_not():
    lengths = [(7 * place) % 40 for place in range(40)]
    order = order_of_rows(lengths, together=8, count=40, seed=1)
    steps = [[lengths[place] for place in order[start : start + 8]] for start in range(0, 40, 8)]
    assert all(step == sorted(step) for step in steps)
    assert all(max(step) - min(step) > 8 for step in steps)


def test_the_order_is_the_seeds():
    lengths = list(range(30))
    first = order_of_rows(lengths, together=4, count=45, seed=3)
    assert first == order_of_rows(lengths, together=4, count=45, seed=3)
    assert len(first) == 45
    assert first != order_of_rows(lengths, together=4, count=45, seed=4)
