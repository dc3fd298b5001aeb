"""Schemas are derived from signatures; arguments are checked against them before anything runs."""

from typing import Any, Literal

import pytest

from trainer.environments.tools import ToolError, checked_arguments, schema_of


def paint(color: Literal["red", "blue"], layers: int, glossy: bool = False) -> None:
    """Paint the wall.

    Not part of the summary.

    Args:
        color: Which color.
        layers: How many.
        glossy: Whether it shines.
    """


def undescribed(color: str) -> None:
    """Paint."""


SCHEMA = schema_of(paint)


def test_a_signature_and_its_docstring_become_a_schema():
    assert SCHEMA == {
        "type": "function",
        "function": {
            "name": "paint",
            "description": "Paint the wall.",
            "parameters": {
                "type": "object",
                "properties": {
                    "color": {"type": "string", "enum": ["red", "blue"], "description": "Which color."},
                    "layers": {"type": "integer", "description": "How many."},
                    "glossy": {"type": "boolean", "description": "Whether it shines."},
                },
                "required": ["color", "layers"],
            },
        },
    }


def test_an_undescribed_argument_is_refused():
    with pytest.raises(ValueError, match="does not describe 'color'"):
        schema_of(undescribed)


def test_arguments_may_come_as_json_text():
    assert checked_arguments(SCHEMA, '{"color": "red", "layers": 2}') == {"color": "red", "layers": 2}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("{color", "the arguments are no JSON: {color"),
        ([1], "the arguments must be a JSON object"),
        (None, "the arguments must be a JSON object"),
        ({"color": "red"}, "missing argument layers"),
        ({"color": "red", "layers": 1, "mood": 1}, "unknown argument mood; known are color, layers, glossy"),
        ({"color": "red", "layers": "two"}, 'layers must be of type integer, got "two"'),
        ({"color": "red", "layers": True}, "layers must be of type integer, got true"),
        ({"color": "green", "layers": 1}, 'color must be one of red, blue, got "green"'),
    ],
)
def test_a_wrong_argument_is_explained_to_the_policy(arguments: Any, error: str):
    with pytest.raises(ToolError) as refused:
        checked_arguments(SCHEMA, arguments)
    assert str(refused.value) == error
