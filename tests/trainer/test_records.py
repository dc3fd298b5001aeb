"""The rich form is written and read without loss, and errors in rows include their location."""

import json
from pathlib import Path

import pytest

from contract.trajectory import Outcome, Step, Task, Trajectory
from trainer.failures import DataFailure
from trainer.records import read_lines, read_tasks, read_trajectories

SYSTEM = {"role": "system", "content": "Be brief."}
ASK = {"role": "user", "content": "What is in f1?"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": {"file": "f1"}}}],
}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "{}"}
ANSWER = {"role": "assistant", "content": "Nothing."}
TRAJECTORY = Trajectory(
    task=Task(key="t", instruction="What is in f1?", environment="office"),
    steps=[Step([SYSTEM, ASK], CALL, reward=0.5), Step([RESULT], ANSWER, done=True)],
    closing=[{"role": "user", "content": "Thanks."}],
    outcome=Outcome(reward=1.0, success=True, termination="done"),
)


def test_contexts_messages_and_closing_give_back_the_chat():
    assert TRAJECTORY.messages() == [SYSTEM, ASK, CALL, RESULT, ANSWER, {"role": "user", "content": "Thanks."}]


def test_a_trajectory_reads_back_the_same(tmp_path: Path):
    path = tmp_path / "trajectories.jsonl"
    path.write_text(json.dumps(TRAJECTORY.to_json()) + "\n")
    assert json.loads(path.read_text())["format"] == "retrace/1"
    assert list(read_trajectories(path)) == [TRAJECTORY]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "Row 2 of rows.jsonl cannot be used: it isn't JSON"),
        ("[1]", "Row 2 of rows.jsonl cannot be used: it is a list. Expected a JSON object."),
        ('{"format": "other"}', "The format is other. Expected `format` is retrace/1, the only version."),
        ('{"format": "retrace/1", "steps": []}', "`task` has no key. Expected `task` is an object such as"),
        ('{"format": "retrace/1", "task": {"key": "k"}}', "`steps` is missing. Expected `steps` is a list."),
    ],
)
def test_a_bad_row_is_named_with_its_number_and_what_was_expected(tmp_path: Path, line: str, problem: str):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(TRAJECTORY.to_json()) + "\n" + line + "\n")
    with pytest.raises(DataFailure) as refused:
        list(read_trajectories(path))
    assert problem in refused.value.message
    assert "row 2" in refused.value.advice


def test_empty_lines_are_skipped_but_counted(tmp_path: Path):
    (tmp_path / "rows.jsonl").write_text('\n{"a": 1}\n\n{"a": 2}\n')
    assert list(read_lines(tmp_path / "rows.jsonl")) == [(2, {"a": 1}), (4, {"a": 2})]


def test_a_missing_file_is_a_data_failure(tmp_path: Path):
    with pytest.raises(DataFailure, match="There is no data file"):
        read_tasks(tmp_path / "none.jsonl")
