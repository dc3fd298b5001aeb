"""Trajectories are read and written as declared, and their format doesn't change."""

import copy
import json
import math
from typing import Any

import jsonschema
import pytest

from contract.schemas import schemas
from contract.trajectory import Outcome, Step, Task, Trajectory
from contract.values import BadRow

ASK = {"role": "user", "content": "What is in f1?"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": {"file": "f1"}}}],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "{}"}
ANSWER = {"role": "assistant", "content": "Nothing."}
THANKS = {"role": "user", "content": "Thanks."}
TRAJECTORY = Trajectory(
    task=Task(key="t", instruction="What is in f1?", environment="office", initial_state={"f1": ""}),
    steps=[Step([ASK], CALL, reward=0.5, prompt_tokens=9), Step([RESULT], ANSWER, done=True, error="empty")],
    outcome=Outcome(reward=1.0, success=True, termination="done"),
    id="r1",
    policy="p",
    closing=[THANKS],
    tags=["a"],
    info={"n": 1},
)


def test_it_reads_back_the_same():
    assert Trajectory.from_json(TRAJECTORY.to_json()) == TRAJECTORY
    assert TRAJECTORY.messages() == [ASK, CALL, RESULT, ANSWER, THANKS]


def test_steps_that_come_one_by_one_make_the_same_line():
    alone = Trajectory(**{**{name: getattr(TRAJECTORY, name) for name in TRAJECTORY.__slots__}, "steps": []})
    line = b"".join(alone.line(iter(TRAJECTORY.steps)))
    assert line.endswith(b"\n")
    assert json.loads(line) == TRAJECTORY.to_json()


def test_its_hash_stays_what_it_was():
    """Stored trajectories are recognized by it."""
    assert TRAJECTORY.content_hash().hex() == "cfde4b9306b048bcdf4fc6c08ddb8ae835dbd7873d4c7c3b987322ba8a519df4"


@pytest.mark.parametrize(
    ("field", "value", "read"),
    [
        ("reward", "0.25", 0.25),
        ("reward", "Infinity", math.inf),  # refused by the reader of the file
        ("reward", True, 1.0),
        ("done", "yes", True),
        ("done", None, False),
        ("error", "", None),
        ("error", {"code": 3}, '{"code":3}'),
        ("prompt_tokens", 7.0, 7),
        ("prompt_tokens", -1, None),
        ("info", None, {}),
        ("seconds", [1], None),
    ],
)
def test_loosely_typed_values_are_read_for_what_they_mean(field: str, value: Any, read: Any):
    row = copy.deepcopy(TRAJECTORY.to_json())
    row["steps"][0][field] = value
    assert getattr(Trajectory.from_json(row).steps[0], field) == read


def test_what_is_unknown_is_left_out_and_what_is_missing_has_its_default():
    row = {"task": {"key": 3}, "steps": [{"message": ANSWER, "unknown": 1}], "unknown": 1}
    assert Trajectory.from_json(row) == Trajectory(Task("3"), [Step([], ANSWER)])


def test_a_bad_record_says_what_was_given_and_what_was_expected():
    with pytest.raises(BadRow) as refused:
        Trajectory.from_json({"task": {"key": "t"}, "steps": [{"message": {"role": "user", "content": "x"}}]})
    assert refused.value.reason == "Step 0 has no assistant message."
    assert refused.value.expected.startswith("A step is {")


def test_its_schema_takes_what_is_written_and_no_other():
    schema = schemas()["trajectory"]
    jsonschema.validate(TRAJECTORY.to_json(), schema)
    for mistake in ({"steps": None}, {"outcome": {"success": "perhaps"}}, {"format": "retrace/2"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(TRAJECTORY.to_json() | mistake, schema)
