"""Records inside an object."""

import pytest

from apps.ingest import formats
from apps.ingest.records import BadParts
from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.rows import read, refusal


def test_the_records_are_read_as_what_they_are():
    inner = EXAMPLES["tau-bench"]
    row = {"config": {"model": "m"}, "results": [inner, {**inner, "trial": 2}]}
    assert formats.format_of(row).name == "wrapped"
    records = list(formats.named("wrapped").read(row, "gpt-4o-retail.json"))
    assert [record.info["trial"] for record in records] == [1, 2]
    assert read("wrapped", EXAMPLES["wrapped"]).reward == 1.0


def test_a_bad_element_is_named_and_keeps_no_other_from_coming_in():
    run = EXAMPLES["tau-bench"]
    row = {"results": [run, {"traj": 3}, {**run, "trial": 2}]}
    assert refusal("wrapped", row)[0] == "Element 2: `traj` is a number. (1 of 3 could not be read.)"
    records = formats.named("wrapped").read(row, "file.json")
    assert [next(records).part for _ in range(2)] == [run, {**run, "trial": 2}]
    with pytest.raises(BadParts):
        next(records)


CHAT = {"messages": EXAMPLES["openai-chat"]["messages"]}


@pytest.mark.parametrize(
    ("row", "keys", "names"),
    [
        ({"task_id": "t", "model": "m", "trials": [CHAT, CHAT]}, ["t", "t"], [("m", ""), ("m", "")]),
        (
            {"model": "m", "tasks": [{"task_id": "t", "runs": [CHAT, {**CHAT, "model": "n"}]}]},
            ["t", "t"],
            [("m", ""), ("n", "")],
        ),
        ({"a": {**CHAT, "task_id": "t"}, "b": {**CHAT, "task_id": "u"}}, ["t", "u"], [(None, "a"), (None, "b")]),
        ({"id": "a", "task_id": "t", "trajectory": CHAT}, ["t"], [(None, "a")]),
        ({"rows": [{"row_idx": 0, "row": {**CHAT, "task_id": "t"}}]}, ["t"], [(None, "")]),
        (
            {"prompt": "q", "answers": [{"response": "a", "model": "m"}, {"response": "b", "model": "n"}]},
            ["PROMPT"] * 2,
            [("m", ""), ("n", "")],
        ),
        ({"task_id": "t", "conversations": [CHAT["messages"]]}, ["t"], [(None, "")]),
    ],
)
def test_records_are_found_inside_and_learn_what_stands_around_them(row, keys, names):
    assert formats.format_of(row).name == "wrapped"
    records = list(formats.named("wrapped").read(row, "file.json"))
    assert ["PROMPT" if record.task.key.startswith("prompt-") else record.task.key for record in records] == keys
    assert [(record.policy, record.id) for record in records] == names


def test_a_list_of_each_split_is_read():
    runs = [{**CHAT, "task_id": name} for name in "abc"]
    records = list(formats.named("wrapped").read({"train": runs[:2], "tools": [{}], "test": runs[2:]}, "file.json"))
    assert [record.task.key for record in records] == ["a", "b", "c"]


def test_two_words_that_mean_something_else_as_often_are_no_run():
    assert not any(format.recognizes({"trace": {"input": "a", "output": "b"}}) for format in formats.known())


TABLE = [{"task_id": "a", "messages": CHAT["messages"]}, {"task_id": "b", "messages": CHAT["messages"]}]


@pytest.mark.parametrize(
    "table",
    [
        {name: {str(place): row[name] for place, row in enumerate(TABLE)} for name in TABLE[0]},
        {str(place): row for place, row in enumerate(TABLE)},
        {"columns": list(TABLE[0]), "index": [0, 1], "data": [list(row.values()) for row in TABLE]},
        {"schema": {"fields": []}, "data": TABLE},
        {"features": [], "rows": [{"row_idx": place, "row": row} for place, row in enumerate(TABLE)]},
    ],
    ids=["columns", "index", "split", "table", "viewer"],
)
def test_tables_written_as_json_are_read_row_by_row(table):
    assert formats.format_of(table).name == "wrapped"
    records = list(formats.named("wrapped").read(table, "file.json"))
    assert [(record.task.key, len(record.steps)) for record in records] == [("a", 2), ("b", 2)]


def test_lists_beside_the_runs_say_something_of_each():
    chat = CHAT["messages"]
    row = {"task_id": "t", "trajectories": [chat, chat], "rewards": [1, 0], "models": ["m", "n"], "seeds": [3, 4]}
    records = list(formats.named("wrapped").read(row, "file.json"))
    assert [(r.task.key, r.reward, r.policy) for r in records] == [("t", 1.0, "m"), ("t", 0.0, "n")]


@pytest.mark.parametrize("name", ["steps", "turns", "trajectory", "transitions"])
def test_the_steps_of_a_run_are_not_runs(name):
    steps = [{"prompt": "a", "response": "b"}, {"prompt": "c", "response": "d"}]
    assert not any(format.recognizes({"task_id": "t", name: steps}) for format in formats.known())


def test_what_a_description_of_data_sets_says_of_their_columns_is_no_record():
    described = {
        "demo": {"file_name": "a.json", "columns": {"prompt": "q", "chosen": "chosen", "rejected": "rejected"}}
    }
    assert not any(format.recognizes(described) for format in formats.known())


def test_the_list_of_runs_itself_says_nothing_of_them():
    record = read("wrapped", {"agents": [CHAT]})
    assert (record.policy, "agent" in record.info) == (None, False)
