"""ShareGPT conversations, with tool calls as LLaMA-Factory writes them."""

import pytest

from apps.ingest import formats
from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.rows import read, refusal

ROW = EXAMPLES["sharegpt"]


def test_turns_become_messages_and_calls():
    record = read("sharegpt", ROW)
    call = {"id": "call_0", "type": "function", "function": {"name": "bash", "arguments": {"command": "ls"}}}
    assert list(record.messages()) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "List the files."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0", "content": "README.md"},
        {"role": "assistant", "content": "README.md"},
    ]
    assert record.tools == [{"type": "function", "function": {"name": "bash", "parameters": {}}}]


def test_several_calls_at_once():
    value = '[{"name": "a", "arguments": {}}, {"name": "b", "arguments": {}}]'
    record = read(
        "sharegpt", {"conversations": [{"from": "human", "value": "x"}, {"from": "function_call", "value": value}]}
    )
    assert [c["function"]["name"] for c in record.steps[0].message["tool_calls"]] == ["a", "b"]


def test_turns_of_both_spellings_are_read():
    turns = [{"from": "human", "value": "x"}, {"role": "assistant", "content": "y"}]
    assert [m["content"] for m in read("sharegpt", {"conversations": turns}).messages()] == ["x", "y"]


@pytest.mark.parametrize("speaker", ["gpt", "GPT", "assistant", "chatgpt", "model", "bot"])
def test_an_agent_has_many_names(speaker):
    turns = [{"from": "human", "value": "x"}, {"from": speaker, "value": "y"}]
    assert len(read("sharegpt", {"conversations": turns}).steps) == 1


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        ({"from": "narrator", "value": "x"}, "A turn is from “narrator”."),
        ({"value": "x"}, "A turn is from “”."),
        ("x", "A turn is a string."),
        ({"from": "function_call", "value": "ls -la"}, "A function call's value is not JSON."),
    ],
)
def test_a_turn_that_makes_no_sense_is_refused(turn, reason):
    assert refusal("sharegpt", {"conversations": [turn]})[0] == reason


def test_preference_pairs_are_not_taken_for_conversations():
    pair = {
        "conversations": ROW["conversations"],
        "chosen": {"from": "gpt", "value": "a"},
        "rejected": {"from": "gpt", "value": "b"},
    }
    assert formats.format_of(pair).name == "judged-pairs"


def test_real_conversations(real_file):
    records = real_file("llamafactory-demos/glaive_toolcall_en_demo.json.gz")
    assert (records.format, len(records.records), records.rejected) == ("sharegpt", 300, [])
    calls = sum(len(step.message.get("tool_calls", [])) for r in records.records for step in r.steps)
    assert calls == 211
