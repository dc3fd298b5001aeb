"""The order of rows: every row once a pass, batches of like length, the same for the same seed."""

from trainer.algorithms.ordering import order_by_length


def test_each_pass_has_every_row_once_and_batches_hold_like_lengths():
    lengths = [(7 * place) % 40 for place in range(40)]
    order = order_by_length(lengths, batch=4, count=80, seed=1)
    assert sorted(order[:40]) == sorted(order[40:]) == list(range(40))
    assert order[:40] != order[40:]
    spreads = [
        max(lengths[place] for place in order[start : start + 4])
        - min(lengths[place] for place in order[start : start + 4])
        for start in range(0, 80, 4)
    ]
    assert max(spreads) == 3  # 40 different lengths, four in a row


def test_the_order_is_the_seeds_and_ends_where_it_is_asked_to():
    lengths = list(range(30))
    assert order_by_length(lengths, batch=4, count=7, seed=3) == order_by_length(lengths, batch=4, count=30, seed=3)[:7]
    assert order_by_length(lengths, batch=4, count=30, seed=3) != order_by_length(lengths, batch=4, count=30, seed=4)
    assert sorted(order_by_length(lengths, batch=4, count=30, seed=3)) == lengths  # a last batch that is not full
