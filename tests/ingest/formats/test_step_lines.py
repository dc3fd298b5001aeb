"""Separate steps are joined to trajectories."""

import io
import json

import pytest

from apps.ingest.files import raw_records
from apps.ingest.files.raw_records import RawRow
from apps.ingest.formats import step_lines
from apps.ingest.upload import recognize_file
from contract import jsontext
from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.rows import read


def runs_in(*lines, name="traj.jsonl"):
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    _, rows, format = recognize_file(io.BytesIO(body))
    return [record for row in rows for record in format.read(jsontext.loads(row.body), name)]


def test_columns_of_the_run_are_told_of_it_and_all_others_of_their_step():
    record = read("step-lines", EXAMPLES["step-lines"])
    assert [message["content"] for message in record.messages()] == ["open the door", "a door", "open", "open", "go"]
    assert (record.task.key, record.reward) == ("t1", 1.0)
    assert [step.info for step in record.steps] == [{"step": 0}, {"step": 1}]


@pytest.mark.parametrize(
    ("lines", "lengths"),
    [
        ([{"episode_id": "a", "step": 0}, {"episode_id": "a", "step": 1}, {"episode_id": "b", "step": 2}], [2, 1]),
        ([{"step": 1}, {"step": 2}, {"step": 1}, {"step": 2}, {"step": 3}], [2, 3]),
        ([{"timestep": "0"}, {"timestep": "1"}], [2]),
        ([{"task_id": "a", "step": 0}, {"task_id": "a", "step": 1}, {"task_id": "a", "step": 0}], [2, 1]),
        ([{"run_id": "a", "step": 1}, {"run_id": "a", "step": 1}, {"run_id": "a", "step": 0}], [3]),
    ],
)
def test_a_run_begins_with_another_name_or_where_steps_are_counted_anew(lines, lengths):
    runs = runs_in(*({"task": "t", "obs": "o", "action": "x", **line} for line in lines))
    assert [len(run.steps) for run in runs] == lengths


def osworld(number, action, response=None, **more):
    named = {"step_num": number, "action_timestamp": f"2025@{number}", "action": action, "response": response}
    return {**named, "reward": 0, "done": action == "DONE", "info": {}, "screenshot_file": f"{number}.png", **more}


def test_of_osworld_the_response_is_what_the_model_wrote():
    called = {"name": "computer", "input": {"action": "click", "coordinate": [1, 2]}, "action_type": "tool_use"}
    (run,) = runs_in(osworld(1, called, "I click."), osworld(2, "DONE", "All done."), {"Error": "Time limit exceeded"})
    first, second = run.steps
    assert first.message["content"] == "I click."
    assert first.message["tool_calls"][0]["function"] == {"name": "computer", "arguments": called["input"]}
    assert (second.message["content"], second.info["action"], second.done) == ("All done.", "DONE", True)
    # Its environment writes 0 for every step, whatever the outcome.
    assert (run.reward, run.task.environment, run.termination) == (None, "osworld", "Time limit exceeded")


def test_an_answer_of_osworld_with_several_actions_is_one_step():
    lines = [
        osworld(1, "click()", "I click, then type.", screenshot_file="a.png"),
        osworld(1, "type()", "I click, then type.", screenshot_file="b.png"),
        osworld(2, "DONE", "Done."),
    ]
    (run,) = runs_in(*lines)
    assert [step.message["content"] for step in run.steps] == ["I click, then type.", "Done."]
    done = [(action["action"], action["screenshot_file"]) for action in run.steps[0].info["actions"]]
    assert done == [("click()", "a.png"), ("type()", "b.png")]
    assert [step.done for step in run.steps] == [False, True]


def test_actions_of_osworld_without_an_answer_are_one_step_with_all_of_them():
    (run,) = runs_in(osworld(1, "click()"), osworld(1, "type()"), osworld(2, "DONE"))
    assert [step.message["content"] for step in run.steps] == ["click()\ntype()", "DONE"]
    calls = [{"name": "computer", "input": {"action": name}} for name in ("click", "type")]
    (run,) = runs_in(*(osworld(1, call, "Both.") for call in calls))
    (step,) = run.steps
    assert [call["function"]["arguments"]["action"] for call in step.message["tool_calls"]] == ["click", "type"]


def test_runs_of_osworld_in_files_of_their_own_are_not_the_same_task():
    (first,), (second,) = runs_in(osworld(1, "WAIT")), runs_in(osworld(1, "FAIL"))
    assert first.task.key != second.task.key


def test_a_line_that_cannot_be_read_is_told_and_keeps_none_of_its_run_out():
    bodies = [b'{"step": 1, "action": "a"}', b"{", b'{"step": 2, "action": "b"}']
    rows = list(raw_records.grouped((RawRow(n, n + 1, b) for n, b in enumerate(bodies)), 1000, step_lines._begins))
    assert [(row.position, row.line, bool(row.problem)) for row in rows] == [(0, 2, True), (1, 1, False)]
    assert len(json.loads(rows[1].body)) == 2


def test_a_run_that_is_too_long_is_refused_alone():
    lines = [{"episode": e, "step": n, "action": "x" * 40} for e in "ab" for n in range(1 if e == "a" else 9)]
    rows = [RawRow(n, n + 1, json.dumps(line).encode()) for n, line in enumerate(lines)]
    groups = list(raw_records.grouped(iter(rows), 200, step_lines._begins))
    assert [bool(row.problem) for row in groups] == [False, True]


def test_steps_in_an_object_are_one_run():
    record = read("wrapped", {"goal": "open the door", "log": [{"step": 0, "action": "a"}, {"step": 1, "action": "b"}]})
    assert (len(record.steps), record.task.instruction) == (2, "open the door")
