"""Rows of prompt and completion: calls as strings in strings, results without ids, metrics of any name."""

import json

import pytest

from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.parts import TOOLS
from tests.ingest.formats.rows import read, refusal

ROW = EXAMPLES["verifiers"]


def test_a_rollout_with_calls_as_strings_and_results_without_ids():
    call = {"id": "c9", "type": "function", "function": {"name": "f", "arguments": '{"q": "x"}'}}
    completion = [
        {"role": "assistant", "content": "", "tool_calls": [json.dumps(call)]},
        {"role": "tool", "content": "found", "tool_calls": None},
        {"role": "assistant", "content": "final", "tool_calls": None},
    ]
    record = read("verifiers", {**ROW, "completion": completion})
    assert [step.message for step in record.steps] == [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "assistant", "content": "final"},
    ]
    assert record.steps[1].context == [{"role": "tool", "tool_call_id": "c9", "content": "found"}]


def test_reward_metrics_answer_and_times():
    record = read("verifiers", ROW)
    assert (record.reward, record.success) == (0.75, None)
    assert record.task.success_check == {"answer": "x"}
    assert record.info == {"metrics": {"judge_reward_func": 0.5}, "generation_ms": 1200.0, "seconds": 1.2}
    assert record.tools == TOOLS


def test_rewards_above_one_are_kept():
    assert read("verifiers", {**ROW, "reward": 8.07}).reward == 8.07


def test_a_base_models_text_is_kept_as_such():
    record = read("verifiers", {"prompt": "Once", "completion": " upon a time", "reward": 0.75})
    assert list(record.messages()) == [
        {"role": "user", "content": "Once"},
        {"role": "assistant", "content": " upon a time"},
    ]
    assert record.info == {"completion_mode": True}


def test_a_rollout_that_produced_nothing_has_no_steps():
    record = read("verifiers", {**ROW, "completion": []})
    assert (len(record.steps), len(record.closing)) == (0, 2)


def test_the_same_question_is_the_same_task_for_every_model_and_numbering():
    again = {**ROW, "example_id": 7, "reward": 0.0, "completion": [{"role": "assistant", "content": "no"}]}
    other = {**ROW, "answer": "y"}
    keys = [read("verifiers", row).task.key for row in (ROW, again, other)]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"prompt": "x"}, "`completion` is missing."),
        ({"prompt": "x", "completion": 7}, "`completion` is a number."),
        ([], "The record is a list."),
    ],
)
def test_a_row_without_its_halves_is_refused(row, reason):
    assert refusal("verifiers", row)[0] == reason


@pytest.mark.parametrize(
    ("path", "trajectories", "steps", "tasks"),
    [
        ("wiki_search/wiki-search--gpt-4.1-mini/052a81ae/results.jsonl", 100, 535, 100),
        ("wiki_search/wiki-search--gpt-5-mini/dc83cc41/results.jsonl.gz", 100, 506, 100),
        ("wordle/wordle--gpt-4.1-mini/816ec3b0/results.jsonl", 15, 85, 5),
        ("gsm8k/gsm8k--gpt-4.1-mini/0036a836/results.jsonl", 150, 0, 50),
        ("tool_test/tool-test--gpt-4.1-mini/066dba27/results.jsonl", 15, 15, 5),
        ("arc_agi_3/arc-agi-3--gpt-4.1-mini/1c109c41/results.jsonl", 3, 255, 1),
        ("continuation_quality/continuation-quality--meta-llama--llama-3.1-405b/3762eafa/results.jsonl", 15, 15, 5),
    ],
)
def test_real_rollouts(real_file, path, trajectories, steps, tasks):
    records = real_file(f"verifiers-rollouts/{path}")
    assert (records.format, records.rejected) == ("verifiers", [])
    assert (len(records.records), sum(len(r.steps) for r in records.records)) == (trajectories, steps)
    assert len({r.task.key for r in records.records}) == tasks


def test_two_models_on_the_same_questions_meet_in_the_same_tasks(real_file):
    folder = "verifiers-rollouts/wiki_search"
    mini = real_file(f"{folder}/wiki-search--gpt-4.1-mini/052a81ae/results.jsonl").records
    nano = real_file(f"{folder}/wiki-search--gpt-5-nano/9a37a8bd/results.jsonl.gz").records
    assert {r.task.key for r in mini} == {r.task.key for r in nano}


def test_every_result_of_a_real_rollout_names_the_call_it_answers(real_file):
    records = real_file("verifiers-rollouts/wiki_search/wiki-search--gpt-4.1-mini/052a81ae/results.jsonl").records
    for record in records:
        called = [c["id"] for step in record.steps for c in step.message.get("tool_calls", [])]
        answered = [m["tool_call_id"] for m in record.messages() if m["role"] == "tool"]
        assert answered == called[: len(answered)]


def test_messages_in_a_cell_of_a_table_are_messages():
    prompt, completion = [{"role": "user", "content": "q"}], [{"role": "assistant", "content": "a"}]
    row = {"prompt": json.dumps(prompt), "completion": json.dumps(completion), "label": "True"}
    record = read("verifiers", row)
    assert [*record.messages()] == prompt + completion
    assert record.info == {"label": "True"}


def test_turns_of_the_prompt_are_context_whoever_speaks_in_them():
    shown = [
        {"role": "user", "content": "1+1"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "2+2"},
    ]
    record = read(
        "verifiers", {"prompt": shown, "completion": [{"role": "assistant", "content": "4"}], "system": "Add."}
    )
    (step,) = record.steps
    assert step.context == [{"role": "system", "content": "Add."}, *shown]
    assert step.message["content"] == "4"


def test_calls_of_the_prompt_are_context_and_results_in_the_completion_answer_them():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    asked = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    answered = [{"role": "tool", "content": "found"}, {"role": "assistant", "content": "It's found."}]
    (step,) = read("verifiers", {"prompt": asked, "completion": answered}).steps
    assert step.context == [*asked, {"role": "tool", "tool_call_id": "c1", "content": "found"}]
