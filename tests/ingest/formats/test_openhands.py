"""OpenHands: events of both versions become chats."""

import pytest

from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.parts import CALL, TOOLS
from tests.ingest.formats.rows import read, refusal

ROW = EXAMPLES["openhands"]
EVENTS = ROW["history"]
SDK = [
    {"kind": "SystemPromptEvent", "source": "agent", "system_prompt": {"type": "text", "text": "s"}, "tools": TOOLS},
    {
        "kind": "MessageEvent",
        "source": "user",
        "llm_message": {"role": "user", "content": [{"type": "text", "text": "go"}]},
    },
    {
        "kind": "ActionEvent",
        "source": "agent",
        "thought": [{"type": "text", "text": "I look."}],
        "reasoning_content": "hm",
        "action": {"kind": "TerminalAction", "command": "ls"},
        "tool_name": "bash",
        "tool_call_id": "c1",
        "tool_call": {"id": "c1", "name": "bash", "arguments": '{"command": "ls"}'},
    },
    {
        "kind": "ActionEvent",
        "source": "agent",
        "thought": [],
        "action": {"kind": "TerminalAction", "command": "pwd", "timeout": None},
        "tool_name": "bash",
        "tool_call_id": "c2",
    },
    {"kind": "ConversationStateUpdateEvent", "source": "environment", "key": "stats"},
    {
        "kind": "ObservationEvent",
        "source": "environment",
        "tool_call_id": "c1",
        "observation": {"content": [{"type": "text", "text": "README.md"}], "is_error": False},
    },
    {"kind": "AgentErrorEvent", "source": "agent", "tool_call_id": "c2", "error": "timed out"},
    {"kind": "MessageEvent", "source": "agent", "llm_message": {"role": "assistant", "content": "Done."}},
]


def test_a_row_of_an_evaluation():
    record = read("openhands", ROW)
    finish = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "finish", "arguments": {"final_thought": "Done."}},
    }
    assert list(record.messages()) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": "I look.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "README.md"},
        {"role": "assistant", "content": None, "tool_calls": [finish]},
    ]
    assert (record.task.environment, record.task.key, record.task.instruction) == (
        *("swe-bench", "owner__repo-1"),
        "It breaks.",
    )
    assert (record.policy, record.success, record.termination, record.tools) == ("m", True, "finish", TOOLS)
    assert (record.steps[0].prompt_tokens, record.steps[0].completion_tokens) == (9, 3)
    assert record.info["metadata"]["agent_class"] == "CodeActAgent"


def test_events_of_the_sdk():
    record = read("openhands", {"instance_id": "a__b-1", "history": SDK, "metadata": {"llm": {"model": "m"}}})
    second = {"id": "c2", "type": "function", "function": {"name": "bash", "arguments": {"command": "pwd"}}}
    assert list(record.messages()) == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [CALL, second]},
        {"role": "tool", "tool_call_id": "c1", "content": "README.md"},
        {"role": "tool", "tool_call_id": "c2", "content": "timed out", "is_error": True},
        {"role": "assistant", "content": "Done."},
    ]
    assert (record.policy, record.tools) == ("m", TOOLS)


def test_events_of_the_sdk_may_begin_with_an_update_of_the_state():
    update = {"kind": "ConversationStateUpdateEvent", "source": "environment", "key": "stats"}
    assert read("openhands", [update, *SDK]).messages() == read("openhands", SDK).messages()


def test_pictures_of_the_user_are_kept():
    asked = {"source": "user", "action": "message", "args": {"content": "What is it?", "image_urls": ["https://a.b/c"]}}
    assert read("openhands", [asked, *EVENTS[2:]]).steps[0].context[0]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "https://a.b/c"}},
    ]


def test_calls_of_one_response_are_one_turn_though_their_results_come_between():
    calls = [CALL, {**CALL, "id": "c2"}]
    response = {"id": "r", "choices": [{"message": {"role": "assistant", "content": "", "tool_calls": calls}}]}
    history = [EVENTS[1]]
    for name in ("c1", "c2"):
        call = {"function_name": "bash", "tool_call_id": name}
        history += [
            {
                "source": "agent",
                "action": "run",
                "args": {},
                "tool_call_metadata": {**call, "model_response": response},
            },
            {"source": "agent", "observation": "run", "content": name, "tool_call_metadata": call},
        ]
    record = read("openhands", history)
    assert len(record.steps) == 1
    assert [(m["tool_call_id"], m["content"]) for m in record.closing] == [("c1", "c1"), ("c2", "c2")]


@pytest.mark.parametrize("row", [EVENTS, {"history": [[EVENTS[1], EVENTS[3]], [EVENTS[4]]]}])
def test_saved_trajectories_and_pairs_of_events(row):
    record = read("openhands", row)
    assert record.steps[0].message["content"] == "I look."
    assert record.task.key.startswith("prompt-")


def test_a_row_without_events_is_refused():
    assert refusal("openhands", {"history": []})[0] == "The record is an object without events."


def test_feedback_keeps_its_events_under_another_name():
    record = read("openhands", {"trajectory": EVENTS, "feedback": "positive"})
    assert (record.steps[0].message["content"], record.info["feedback"]) == ("I look.", "positive")
