"""Tool results as values: JSON, or Python literals if a tool didn't write JSON."""

import pytest

from apps.common.nested_json import Unreadable, decode_result
from apps.trajectories.rendering.blocks import choose


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, null]}', {"a": [1, None]}),
        ("{'a': [1, None, True], 'b': \"it's\"}", {"a": [1, None, True], "b": "it's"}),
        ("[{'id': 'x:y', 'n': -1.5e3}, ('a', 2)]\n", [{"id": "x:y", "n": -1500.0}, ["a", 2]]),
    ],
)
def test_both_spellings_are_read(text: str, value: object) -> None:
    assert decode_result(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("[open('x')]", "[1+1]", "[1 -1 -1]", "[a]", "['a'", "[x for x in y]", "{'a': b'1'}", "{1: {2, 3}}"),
        *(
            "[" * 50_000,
            "[" + "()" * 30_000 + "]",
            "[" + "- " * 30_000 + "1]",
            "[1" + "-1" * 30_000 + "]",
            "['a" * 9_000,
        ),
    ],
)
def test_anything_else_is_not_evaluated_and_costs_nothing(text: str) -> None:
    with pytest.raises(Unreadable):
        decode_result(text)


def test_rows_in_pythons_spelling_are_a_table() -> None:
    form, rows = choose("[{'page_id': 'kpmg', 'title': 'KPMG'}, {'page_id': 'star', 'title': 'Star'}]")
    assert (form, rows[1]["title"]) == ("table", "Star")
