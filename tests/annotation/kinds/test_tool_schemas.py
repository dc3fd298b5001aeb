"""Tool schemas come from trajectories: whatever they contain, processing them terminates."""

import pytest

from apps.annotation.kinds import tool_schemas
from apps.annotation.kinds.tool_schemas import MAX_KEYWORDS, budget, problems

ASKS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def doubled(levels: int) -> dict:
    """A schema that refers to itself 2 ** levels times."""
    twice = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**twice, f"s{levels}": {"type": "object"}}, "$ref": "#/$defs/s0"}


def test_arguments_are_held_against_the_schema():
    assert problems(ASKS, {"city": "Oslo"}) == []
    assert [problem.message for problem in problems(ASKS, {"city": 3})] == ["3 is not of type 'string'"]
    assert [problem.message for problem in problems(ASKS, {})] == ["'city' is a required property"]
    assert [
        problem.message for problem in problems({**ASKS, "additionalProperties": False}, {"city": "Oslo", "x": 1})
    ] == ["Additional properties are not allowed ('x' was unexpected)"]


@pytest.mark.parametrize("schema", [None, True, "text", {"type": "nonsense"}, {"required": "city"}])
def test_what_is_no_schema_refuses_nothing(schema):
    assert problems(schema, {"x": 1}) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": False, "patternProperties": {"(a+)+$": {}}},
        {"unevaluatedProperties": False, "patternProperties": {"(a+)+$": {}}},
        {"propertyNames": {"pattern": "(a+)+$"}},
    ],
)
def test_no_pattern_is_tried_by_whichever_keyword(schema):
    assert problems(schema, {"a" * 60 + "!": 1}) == []


def test_a_schema_that_refers_to_itself_without_end_is_given_up():
    assert problems(doubled(3), "no object") != []
    with budget() as mine:
        assert problems(doubled(40), {}) == []
        assert mine.left < 0


def test_all_arguments_of_an_answer_share_one_budget():
    with budget() as mine:
        for _ in range(MAX_KEYWORDS):
            problems(ASKS, {"city": "Oslo"})
        assert mine.left < 0
        assert problems(ASKS, {}) == []  # given up
    assert problems(ASKS, {}) != []


def test_a_schema_is_looked_at_once_for_all_the_arguments_of_an_answer(monkeypatch):
    meta: list[object] = []
    real = tool_schemas._Validator
    monkeypatch.setattr(tool_schemas, "_Validator", lambda schema, **more: meta.append(schema) or real(schema, **more))
    with budget():
        for _ in range(5):
            problems(ASKS, {"city": "Oslo"})
    assert [schema is ASKS for schema in meta] == [False, True, True, True, True, True]
