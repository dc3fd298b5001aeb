"""The declarations of row types are consistent."""

import pytest

from apps.annotation.models import Queue
from apps.datasets.rows import ROW_TYPES
from apps.datasets.rows.row_type import RowType

every_row_type = pytest.mark.parametrize("row_type", ROW_TYPES.values(), ids=ROW_TYPES)


@every_row_type
def test_a_row_type_is_made_from_queues_that_exist(row_type: RowType) -> None:
    assert row_type.queue_kinds
    assert set(row_type.queue_kinds) <= set(Queue.Kind.values)
    assert bool(row_type.pairs) == ("pairwise" in row_type.queue_kinds)
    assert bool(row_type.trajectories) == bool({"steps", "rating"} & set(row_type.queue_kinds))


@every_row_type
def test_the_columns_of_a_row_type_have_names_of_their_own(row_type: RowType) -> None:
    names = row_type.layout.schema.names
    assert len(set(names)) == len(names)
    assert "margin" not in names  # TRL would use it as the margin of its loss
    assert {"id", "task", "weight", "annotators", "judgments", "items"} <= set(names)
