"""Schemas come from signatures; arguments are checked against them before anything runs."""

from typing import Any, Literal

import pytest

from trainer.environments.tools import ToolError, checked_arguments, schema_of


def paint(colour: Literal["red", "blue"], layers: int, glossy: bool = False) -> None:
    """Paint the wall.

    Not part of the summary.

    Args:
        colour: Which colour.
        layers: How many.
        glossy: Whether it shines.
    """


def undescribed(colour: str) -> None:
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
                    "colour": {"type": "string", "enum": ["red", "blue"], "description": "Which colour."},
                    "layers": {"type": "integer", "description": "How many."},
                    "glossy": {"type": "boolean", "description": "Whether it shines."},
                },
                "required": ["colour", "layers"],
            },
        },
    }


def test_an_undescribed_argument_is_refused():
    with pytest.raises(ValueError, match="does not describe 'colour'"):
        schema_of(undescribed)


def test_arguments_may_come_as_json_text():
    assert checked_arguments(SCHEMA, '{"colour": "red", "layers": 2}') == {"colour": "red", "layers": 2}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ("{colour", "the arguments are no JSON: {colour"),
        ([1], "the arguments must be a JSON object"),
        (None, "the arguments must be a JSON object"),
        ({"colour": "red"}, "missing argument layers"),
        ({"colour": "red", "layers": 1, "mood": 1}, "unknown argument mood; known are colour, layers, glossy"),
        ({"colour": "red", "layers": "two"}, 'layers must be of type integer, got "two"'),
        ({"colour": "red", "layers": True}, "layers must be of type integer, got true"),
        ({"colour": "green", "layers": 1}, 'colour must be one of red, blue, got "green"'),
    ],
)
def test_a_wrong_argument_is_explained_to_the_policy(arguments: Any, error: str):
    with pytest.raises(ToolError) as refused:
        checked_arguments(SCHEMA, arguments)
    assert str(refused.value) == error
