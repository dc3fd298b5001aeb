"""A record's task, policy, and outcome, under the column names of published data sets."""

import pytest

from apps.ingest.normalization.columns import (
    INSTANCE,
    NAME,
    POLICY,
    REWARD,
    TASK,
    Columns,
    inside,
    listed,
    named,
    nonempty_text,
    succeeded,
)
from apps.ingest.normalization.fields import number
from apps.ingest.records import StepRecord

A, B = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}


@pytest.mark.parametrize(
    ("row", "names", "read", "found", "rest"),
    [
        ({"task_id": 0, "item_id": "x"}, TASK, named, "0", {"item_id": "x"}),
        ({"task_id": "", "item_id": "x"}, TASK, named, "x", {"task_id": ""}),
        ({"task": {"id": 7}}, TASK, named, "7", {"task": {"id": 7}}),
        ({"task": "do it"}, TASK, named, None, {"task": "do it"}),
        ({"ds": {"instance_id": "x"}}, INSTANCE, named, "x", {"ds": {"instance_id": "x"}}),
        ({"model": {"name": "m"}}, POLICY, nonempty_text, "m", {"model": {"name": "m"}}),
        ({"agent": "a", "generator": "g"}, POLICY, nonempty_text, "g", {"agent": "a"}),
        ({"uuid": "u", "run_id": "r"}, NAME, named, "u", {"run_id": "r"}),
        ({"reward": "n/a", "score": "0.5"}, REWARD, number, 0.5, {"reward": "n/a"}),
        ({"reward": None, "outcome": {"reward": 2}}, REWARD, number, 2.0, {"outcome": {"reward": 2}}),
    ],
)
def test_the_first_name_that_says_something_is_taken_and_the_rest_is_kept(row, names, read, found, rest):
    columns = Columns(row)
    assert columns.take(read, names) == found
    assert columns.rest() == rest


@pytest.mark.parametrize(
    ("row", "success"),
    [
        ({"success": 1}, True),
        ({"resolved": "false"}, False),
        ({"is_correct": "1"}, True),
        ({"outcome": "Failed"}, False),
        ({"report": {"resolved": True}}, True),
        ({"correct": "B"}, None),
        ({"target": True}, True),
        ({"target": "False"}, False),
        ({"target": 1}, None),  # may be an answer
        ({"status": "success"}, None),  # of the request
        ({}, None),
    ],
)
def test_success_is_said_in_many_ways(row, success):
    assert succeeded(row, Columns(row)) is success


@pytest.mark.parametrize(
    ("row", "total", "rewards", "rest"),
    [
        ({"rewards": [0, "0.5"]}, 0.5, [0.0, 0.5], {}),
        ({"reward": [1, 1]}, 2.0, [1.0, 1.0], {}),
        ({"rewards": [0, 1], "reward": 0.25}, 0.25, [0.0, 1.0], {}),
        ({"rewards": [1]}, None, [None, None], {"rewards": [1]}),
        ({"rewards": [1, None]}, None, [None, None], {"rewards": [1, None]}),
        ({"rewards": {"f": 1}}, None, [None, None], {"rewards": {"f": 1}}),
    ],
)
def test_as_many_rewards_as_steps_are_theirs(row, total, rewards, rest):
    steps, columns = [StepRecord([], {}), StepRecord([], {})], Columns(row)
    assert columns.take_rewards(steps) == total
    assert [step.reward for step in steps] == rewards
    assert columns.rest() == rest


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([A, B], [A, B]),
        ('[{"role": "user", "content": "a"}]', [A]),
        (' {"role": ["user"], "content": ["a"]}', [A]),
        ({"role": ["user", "assistant"], "content": ["a", "b"]}, [A, B]),
        ({"role": ["user", "assistant"], "content": ["a"]}, None),
        *((nothing, None) for nothing in ("[1", "USER: a", {}, {"role": "user"}, None, 7)),
    ],
)
def test_lists_come_as_json_and_as_columns_too(value, found):
    assert listed(value) == found


def test_a_path_that_leads_nowhere_finds_nothing():
    assert inside({"a": {"b": 1}}, "a.b") == 1
    assert inside({"a": [1]}, "a.b.c") is None
