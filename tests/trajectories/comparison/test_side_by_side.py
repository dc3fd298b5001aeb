"""The rows of a comparison, by page."""

from copy import deepcopy
from typing import Any

import pytest

from apps.trajectories.comparison import side_by_side
from apps.trajectories.comparison.side_by_side import Comparison, Row
from tests import factories


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


def _step(number: int) -> dict[str, Any]:
    heard = {"role": "tool", "tool_call_id": f"c{number - 1}", "content": f"Result {number - 1}"}
    function = {"name": "look", "arguments": {"at": number}}
    message = {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "Hm.",
        "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
    }
    return {"context": [heard] if number else [{"role": "user", "content": "Find it."}], "message": message}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("change", "first"),
    [
        (lambda steps, closing: None, None),
        (lambda steps, closing: steps[1]["message"].update(content="It isn't here."), 1),
        (lambda steps, closing: steps[1]["message"].update(reasoning_content="Wait."), 1),
        (lambda steps, closing: steps[2]["context"][0].update(content="Nothing"), 1),
        (lambda steps, closing: closing[0].update(content="Nothing"), 2),
        (lambda steps, closing: closing.append({"role": "user", "content": "Thanks."}), 2),
    ],
)
def test_identical_steps_are_equal_in_all_that_one_reads(change: Any, first: int | None) -> None:
    steps, closing = [_step(number) for number in range(3)], [{"role": "tool", "tool_call_id": "c2", "content": "Here"}]
    other_steps, other_closing = deepcopy(steps), deepcopy(closing)
    change(other_steps, other_closing)
    home = factories.workspace()
    left = factories.imported_run(steps, of=home, closing=closing, success=True)
    right = factories.imported_run(other_steps, of=home, closing=other_closing, success=False)
    comparison = side_by_side.compare(left, right)
    assert all(row.same_action for row in comparison.rows)
    assert (comparison.first_difference and comparison.first_difference.number) == first
