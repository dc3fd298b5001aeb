"""Rows are checked before anything is loaded; each error names the row and what was expected."""

import json
from pathlib import Path
from typing import Any

import pytest

from contract.rows import PreferenceRow, UnpairedRow
from trainer.failures import DataFailure
from trainer.rows import (
    Demonstration,
    read_demonstrations,
    read_judged_steps,
    read_preferences,
    read_unpaired,
)

ASK = {"role": "user", "content": "Add 1 and 2."}
GOOD = {"role": "assistant", "content": "3"}
BAD = {"role": "assistant", "content": "4"}
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
ROW: dict[str, Any] = {"prompt": [ASK], "chosen": [GOOD], "rejected": [BAD]}


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_a_preference_row_may_be_bare(tmp_path: Path):
    path = written(tmp_path / "rows.jsonl", ROW)
    assert read_preferences(path) == [PreferenceRow([ASK], [GOOD], [BAD])]


def test_tools_may_be_text_and_columns_of_others_do_no_harm(tmp_path: Path):
    row = {**ROW, "tools": json.dumps([TOOL]), "margin": 2, "weight": 0.5, "annotators": ["a"], "task": "t"}
    (read,) = read_preferences(written(tmp_path / "rows.jsonl", row))
    assert (read.tools, read.margin, read.weight) == ([TOOL], 2.0, 0.5)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"chosen": None}, "chosen is NoneType null. Expected prompt, chosen and rejected, each a list of messages"),
        ({"chosen": "3"}, 'chosen is str "3"'),
        ({"rejected": []}, "rejected is list []"),
        (
            {"prompt": [{"role": "robot", "content": ""}]},
            "prompt[0] has the role 'robot', not one of system, developer",
        ),
        ({"prompt": ["hi"]}, "prompt[0] has the role None"),
        ({"chosen": [ASK]}, "chosen has no assistant message, so there is nothing to learn"),
        ({"chosen": [{**GOOD, "tool_calls": 1}]}, "chosen[0] has tool_calls that are int 1, not a list"),
        ({"chosen": [{**GOOD, "tool_calls": [{"name": "add"}]}]}, "chosen[0] has a tool call without function.name"),
        ({"tools": "{"}, "tools is text but not JSON"),
        ({"tools": {"a": 1}}, 'tools is dict {"a": 1}, not a list of schemas'),
        ({"weight": -1}, "weight is -1, not 0 or more"),
        ({"margin": "big"}, 'margin is str "big", not a number'),
        ({"margin": True}, "margin is bool true, not a number"),
    ],
)
def test_a_bad_row_says_where_and_what(tmp_path: Path, change: dict[str, Any], problem: str):
    with pytest.raises(DataFailure) as refused:
        read_preferences(written(tmp_path / "rows.jsonl", ROW, {**ROW, **change}))
    assert refused.value.message.startswith("Row 2 of rows.jsonl cannot be used: ")
    assert problem in refused.value.message


def test_a_missing_column_is_called_missing(tmp_path: Path):
    with pytest.raises(DataFailure, match=r"Row 1 of rows\.jsonl cannot be used: rejected is missing"):
        read_preferences(written(tmp_path / "rows.jsonl", {"prompt": [ASK], "chosen": [GOOD]}))


def test_demonstrations_come_in_three_shapes(tmp_path: Path):
    step = {"context": [ASK], "message": GOOD}
    trajectory = {"format": "retrace/1", "task": {"key": "t", "instruction": "i"}, "steps": [step], "tools": [TOOL]}
    path = written(
        tmp_path / "rows.jsonl",
        {"messages": [ASK, GOOD], "tools": [TOOL]},
        {"prompt": [ASK], "completion": [GOOD]},
        trajectory,
    )
    assert read_demonstrations(path) == [
        Demonstration([], [ASK, GOOD], [TOOL]),
        Demonstration([ASK], [GOOD]),
        Demonstration([], [ASK, GOOD], [TOOL]),
    ]


def test_single_runs_come_from_rows_of_their_own_from_both_sides_of_a_pair_and_from_trajectories(tmp_path: Path):
    own = {"prompt": [ASK], "completion": [GOOD], "label": True, "weight": 2}
    step = {"context": [ASK], "message": BAD}
    run = {
        "format": "retrace/1",
        "task": {"key": "t", "instruction": ""},
        "steps": [step],
        "outcome": {"success": False},
    }
    tie = {**ROW, "tie": True}
    assert read_unpaired(written(tmp_path / "rows.jsonl", own, ROW, run, tie)) == [
        UnpairedRow([ASK], [GOOD], True, weight=2.0),
        UnpairedRow([ASK], [GOOD], True),
        UnpairedRow([ASK], [BAD], False),
        UnpairedRow([ASK], [BAD], False),
    ]


@pytest.mark.parametrize(
    ("read", "row", "problem"),
    [
        (read_unpaired, {"prompt": [ASK], "completion": [GOOD], "label": 1}, "label is int 1, not true or false"),
        (read_demonstrations, {"messages": [ASK, GOOD], "train_turns": [True, False]}, "not a list of 1 booleans"),
        (read_demonstrations, {"messages": [ASK, GOOD], "train_turns": [False]}, "there is nothing to learn"),
        (read_preferences, {**ROW, "soft_label": 1.5}, "soft_label is 1.5, not from 0 to 1"),
    ],
)
def test_what_other_rows_may_not_say_is_named(read: Any, row: dict[str, Any], problem: str, tmp_path: Path):
    with pytest.raises(DataFailure, match=problem):
        read(written(tmp_path / "rows.jsonl", row))


def test_answers_in_a_trajectorys_context_are_no_turns_to_learn(tmp_path: Path):
    shown = {"role": "assistant", "content": "2", "is_demo": True}
    steps = [{"context": [ASK, shown, ASK], "message": GOOD}, {"context": [shown, ASK], "message": BAD, "error": "!"}]
    trajectory = {
        "format": "retrace/1",
        "task": {"key": "t"},
        "steps": steps,
        "outcome": {"success": True},
        "closing": [shown],
    }
    path = written(tmp_path / "rows.jsonl", trajectory)
    of_another = {**shown, "weight": 0}
    chat = [ASK, of_another, ASK, GOOD, of_another, ASK, BAD, of_another]
    assert read_demonstrations(path) == [Demonstration([], chat)]
    assert read_judged_steps(path)[0].step_labels == [0.0, -1.0]
    assert read_unpaired(path) == [UnpairedRow([ASK, shown, ASK], chat[3:], True)]
