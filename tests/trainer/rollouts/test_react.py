"""Plain text represents the same messages, and is parsed back into them."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from contract.messages import Message
from tests.trainer.policies import save_policy
from tests.trainer.runs import run_here
from trainer.failures import ExitCode
from trainer.records import read_trajectories
from trainer.rollouts.react import as_text, in_text, read_turn

SEND = {
    "type": "function",
    "function": {
        "name": "send",
        "description": "Send a file.",
        "parameters": {
            "type": "object",
            "properties": {"file": {"type": "string", "description": "its id"}, "how": {"enum": ["now", "later"]}},
            "required": ["file"],
        },
    },
}


def calling(arguments: Any, content: str = "") -> Message:
    function = {"name": "send", "arguments": arguments}
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }


def read(text: str) -> tuple[Message, str | None]:
    return read_turn(text, call_id="c1")


@pytest.mark.parametrize(
    "message",
    [
        calling({"file": "f1"}, "It is the final one."),
        calling({"file": "a: {b}\nAction: c"}),
        {"role": "assistant", "content": "Done."},
    ],
)
def test_what_is_written_is_read_back(message: Message):
    assert read(as_text(message)) == (message, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('Action: send\nAction Input: {"file": "f1"}\nObservation: sent\nFinal Answer: Done.', calling({"file": "f1"})),
        ('Action: send  \nAction Input:\n```json\n{"file": "f1"}\n```', calling({"file": "f1"})),
        ('Action: send\nAction Input: {"file": "f1"} and so on', calling({"file": "f1"})),
        ("Action: send\nAction Input: f1", calling("f1")),
        ("Action: send\nAction Input:", calling("")),
        ("Thought: Hm.\nFinal Answer: Done.", {"role": "assistant", "content": "Done.", "reasoning_content": "Hm."}),
        ("It is done.", {"role": "assistant", "content": "It is done."}),
        ("", {"role": "assistant", "content": ""}),
    ],
)
def test_sloppy_text_is_read_as_it_is_meant(text: str, message: Message):
    assert read(text) == (message, None)


@pytest.mark.parametrize("text", ["Thought: I send it.\nAction: send", "Thought: Hm."])
def test_half_a_call_is_no_call_and_stays_as_it_was_written(text: str):
    message, error = read(text)
    assert error == "after Thought comes Action and Action Input, or Final Answer"
    assert message["content"] == as_text(message) == text


def test_deeply_nested_arguments_do_no_harm():
    message, error = read("Action: send\nAction Input: " + '{"a":' * 100_000)
    assert error is None
    assert isinstance(message["tool_calls"][0]["function"]["arguments"], str)


@pytest.mark.parametrize(
    "text",
    ["Action:" + " " * 100_000 + ".", "Action: a\n" * 20_000, "Action:\n" + " \n" * 50_000 + "."],
    ids=["spaces", "the mark", "blank lines"],
)
def test_a_model_that_repeats_itself_is_read_in_no_time(text: str):
    """A pattern for the whole call had three gaps: 30,000 spaces kept a worker busy for hours."""
    before = time.process_time()
    message, error = read(text)
    assert (message["content"], error) == (text, "after Thought comes Action and Action Input, or Final Answer")
    assert time.process_time() - before < 5


def test_a_chat_becomes_text_with_turns_that_alternate():
    chat: list[Message] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Send it."},
        calling({"file": "f1"}, "I send it."),
        {"role": "tool", "tool_call_id": "c1", "content": '{"sent": "f1"}'},
        {"role": "user", "content": "Thanks."},
    ]
    system, *rest = in_text(chat, [SEND])
    assert system["content"].startswith(
        'Be brief.\n\nYou can use these tools:\n- send(file: string, how?: "now" | "later"): Send a file.'
    )
    assert rest == [
        {"role": "user", "content": "Send it."},
        {
            "role": "assistant",
            "content": f"Thought: I send it.\nAction: send\nAction Input: {json.dumps({'file': 'f1'})}",
        },
        {"role": "user", "content": 'Observation: {"sent": "f1"}\nThanks.'},
    ]


def test_a_local_model_is_spoken_to_in_plain_text(tmp_path: Path):
    save_policy(tmp_path / "policy")
    policy = {
        "engine": "local",
        "model": {"path": "./policy"},
        "sampling": {"max_new_tokens": 8},
        "tool_calls": "react",
    }
    assert (
        run_here(tmp_path, {"kind": "rollout", "policy": policy, "tasks": {"count": 2}, "budget": {"steps": 2}})
        == ExitCode.FINISHED
    )
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "policy")
    first, second = read_trajectories(tmp_path / "trajectories.jsonl")
    for trajectory in (first, second):
        assert trajectory.tools
        [step] = trajectory.steps  # without a call, so it's the last one
        assert step.completion_tokens == len(step.info["token_ids"]) == len(step.info["logprobs"])
        prompt = tokenizer.decode(step.info["context_ids"])
        assert ("Action Input:" in prompt, "<tools>" in prompt) == (True, False)
        assert "text" in step.info
