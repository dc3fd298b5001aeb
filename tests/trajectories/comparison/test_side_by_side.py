"""The rows of a comparison, by page."""

import pytest

from apps.trajectories.comparison import side_by_side
from apps.trajectories.comparison.side_by_side import Comparison, Row


def compared(count: int, *, differing: int | None = None) -> Comparison:
    """This many rows without steps, one of which differs."""
    rows = [Row(number, None, None, True, number != differing) for number in range(count)]
    return Comparison(rows, None if differing is None else rows[differing], differing or count)


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "PAGE_ROWS", 10)


@pytest.mark.parametrize(
    ("count", "row", "words", "previous", "next_"),
    [
        (25, None, "Rows 11 to 20 of 25", "0", "20"),
        (25, 0, "Rows 1 to 10 of 25", "", "10"),
        (25, 24, "Rows 21 to 25 of 25", "10", ""),
        (25, 99_999_999, "Rows 21 to 25 of 25", "10", ""),
        (0, None, "", "", ""),
        (20, 19, "Rows 11 to 20 of 20", "0", ""),
    ],
)
def test_a_page_has_few_rows_and_leads_to_those_around_it(
    count: int, row: int | None, words: str, previous: str, next_: str
) -> None:
    page = compared(count, differing=12 if count else None).page(row)
    assert (page.caption, page.previous, page.next) == (words, previous, next_)
    assert len(page.rows) <= 10


def test_the_first_page_is_that_of_the_first_difference() -> None:
    assert [group.is_identical for group in compared(25, differing=12).page().groups] == [True, False, True]
    assert compared(25).page().caption == "Rows 1 to 10 of 25"
