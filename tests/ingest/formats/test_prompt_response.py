"""A question and an answer in two columns are a trajectory of one step."""

import json

import pytest

from apps.ingest import formats
from tests.ingest.formats.rows import read, refusal

CALL = {"name": "look", "arguments": {"a": 1}}


@pytest.mark.parametrize(
    ("row", "question", "answered"),
    [
        ({"prompt": "q", "response": "a"}, "q", "a"),
        ({"input": "q", "output": "a"}, "q", "a"),
        ({"question": "q", "generation": "a", "answer": "4"}, "q", "a"),
        ({"instruction": "q", "input": "r", "output": "a"}, "q\n\nr", "a"),
        ({"instruction": "q", "input": "", "output": "a"}, "q", "a"),
        ({"prompt": [{"role": "user", "content": "q"}], "response": [{"role": "assistant", "content": "a"}]}, "q", "a"),
    ],
)
def test_both_are_found_under_their_names(row, question, answered):
    record = read("prompt-response", {**row, "score": "0.5", "seed": 3})
    assert [message["content"] for message in record.messages()] == [question, answered]
    assert (len(record.steps), record.reward, record.info["seed"]) == (1, 0.5, 3)


@pytest.mark.parametrize("answers", [[CALL], '[{"name": "look", "arguments": {"a": 1}}]'])
def test_calls_alone_are_an_answer(answers):
    record = read(
        "prompt-response", {"query": "q", "answers": answers, "tools": '[{"name": "look", "parameters": {}}]'}
    )
    assert record.steps[0].message["tool_calls"][0]["function"] == CALL
    assert record.tools[0]["function"]["name"] == "look"


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "q"},
        {"response": "a"},
        {"prompt": "q", "response": 7},
        {"prompt": "q", "response": "a", "chosen": "x"},
    ],
)
def test_one_alone_is_no_run(row):
    assert not formats.named("prompt-response").recognizes(row)


def test_what_is_missing_is_said():
    assert refusal("prompt-response", {"prompt": "q"})[0] == "There is no answer."


def test_several_answers_are_runs_of_one_task_and_lists_beside_them_are_theirs():
    row = {
        "prompt": "q",
        "responses": ["a", "b"],
        "scores": [0, 1],
        "models": ["m", "n"],
        "tags": ["x", "y"],
        "seed": 3,
    }
    records = list(formats.named("prompt-response").read(row, "file.jsonl"))
    assert [(r.policy, r.reward, r.steps[0].message["content"], r.info) for r in records] == [
        ("m", 0.0, "a", {"seed": 3}),
        ("n", 1.0, "b", {"seed": 3}),
    ]
    assert len({record.task.key for record in records}) == 1


def test_several_answers_may_be_chats():
    answers = [[{"role": "assistant", "content": text}] for text in ("a", "b")]
    row = {"prompt": [{"role": "user", "content": "q"}], "completions": answers, "rewards": [0, 1]}
    records = list(formats.named("prompt-response").read(row, "file.jsonl"))
    assert [(r.reward, r.steps[0].message["content"], r.info) for r in records] == [(0.0, "a", {}), (1.0, "b", {})]


def test_labeled_completions_are_the_steps_of_one_answer():
    record = read("prompt-response", {"prompt": "q", "completions": ["a", "b"], "labels": [True, False]})
    assert [(step.message["content"], step.info) for step in record.steps] == [
        ("a", {"label": True}),
        ("b", {"label": False}),
    ]


def test_what_was_said_before_an_instruction_comes_before_it():
    record = read("prompt-response", {"instruction": "q", "output": "a", "history": [["p", "o"]]})
    assert [message["content"] for message in record.messages()] == ["p", "o", "q", "a"]
    # The row is about its last answer.
    assert [step.message["content"] for step in record.steps] == ["a"]


@pytest.mark.parametrize("name", ["trajectory", "intermediate_steps", "events"])
def test_an_answer_beside_a_run_that_is_not_understood_is_not_all_that_was_said(name):
    row = {"question": "q", "prediction": "a", name: [{"odd": 1}]}
    assert not any(format.recognizes(row) for format in formats.known())
    assert read("prompt-response", {**row, name: []}).steps


@pytest.mark.parametrize("is_cell", [False, True])
def test_answers_with_a_rank_each_are_runs_of_one_task(is_cell):
    prompt = "\n\nHuman: q\n\nAssistant: "
    answers = [{"answer": "a", "model": "m", "rank": 1.0}, {"answer": "b", "model": "n", "rank": 2.0}]
    row = {"prompt": prompt, "answers": json.dumps(answers) if is_cell else answers, "turns": 1}
    first, second = formats.named("prompt-response").read(row, "f")
    assert [message["content"] for message in first.messages()] == ["q", "a"]
    assert first.task == second.task
    assert (first.policy, first.info, second.policy, second.info["rank"]) == ("m", {"turns": 1, "rank": 1.0}, "n", 2.0)
