"""InterCode: parallel lists, which may differ in length, and an older form with pairs."""

from copy import deepcopy

from apps.ingest import formats
from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.rows import read, refusal

ROW = EXAMPLES["intercode"]


def test_lists_become_steps():
    record = read("intercode", ROW)
    first, second = record.steps
    assert first.context == [{"role": "user", "content": "List the files."}]
    assert (first.message["content"], first.message["reasoning_content"]) == ("ls", "I look.")
    assert second.context == [{"role": "user", "content": "README.md"}]
    assert [step.reward for step in record.steps] == [0.5, 1.0]
    assert record.closing == []  # what came after the last action is unknown
    assert (record.task.key, record.task.environment) == ("0", "ic_bash/set_1")
    assert (record.reward, record.success) == (1.0, True)


def test_the_older_form_has_pairs():
    episode = {
        "environment": "ic_sql",
        "query_idx": 3,
        "query": "Which shops?",
        "reward": 0.5,
        "trajectory": [{"action": "show tables;", "observation": [["shop"]]}],
    }
    record = read("intercode", {"meta": {}, "logs": {"3": episode}})
    assert (record.task.key, record.reward, record.success) == ("3", 0.5, False)
    assert record.closing == [{"role": "user", "content": '[["shop"]]'}]


def test_each_episode_is_a_run_and_a_bad_one_is_named():
    row = {**ROW, "1": deepcopy(ROW["0"])}
    assert [record.id for record in formats.named("intercode").read(row, "f")] == ["0", "1"]
    row["1"]["turn_history"]["actions"] = [None]
    assert refusal("intercode", row)[0].startswith("Episode 1: ")
    assert refusal("intercode", {**ROW, "2": 7})[0].startswith("Episode 2: It is a number without `query` or actions.")


def test_real_results(real_file):
    records = real_file("intercode/sql/human/ic_sql_multiturn_human_10_turns.json")
    assert (records.format, len(records.records), records.rejected) == ("intercode", 15, [])
    react = real_file("intercode/bash/gpt-3.5/ic_bash_react_10_turns_fs_1.json").records
    assert len(react) == 60
    assert all(step.message["reasoning_content"] and step.reward is not None for run in react for step in run.steps)
