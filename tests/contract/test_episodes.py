"""Episodes that runners play."""

from contract.episodes import new_batch_id


def test_batches_sort_by_age():
    ids = [new_batch_id() for _ in range(20)]
    assert ids == sorted(ids)
