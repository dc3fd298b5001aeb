"""Message parts of APIs and SDKs: a tool's result is never the policy's."""

import pytest

from apps.ingest.normalization.conversation import to_steps
from apps.ingest.records import BadRow
from apps.ingest.traces.payloads import read_payload

ASKED = {"role": "user", "content": "How warm is it?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}
ANSWERED = {"role": "assistant", "content": "21."}


def invoked(**more):
    return {"toolCallId": "c1", "input": {"city": "Rome"}, "state": "output-available", "output": "21", **more}


OLD = {"toolCallId": "c1", "toolName": "weather", "args": {"city": "Rome"}, "state": "result", "result": "21"}
WORDS = {"type": "text", "text": "21."}
SEARCH = {"type": "server_tool_use", "id": "c1", "name": "weather", "input": {"city": "Rome"}}


@pytest.mark.parametrize(
    "message",
    [
        {"parts": [{"type": "step-start"}, invoked(type="tool-weather"), {"type": "step-start"}, WORDS]},
        {"parts": [invoked(type="dynamic-tool", toolName="weather"), WORDS]},
        {"content": "21.", "parts": [{"type": "tool-invocation", "toolInvocation": OLD}, WORDS]},
        {"content": "21.", "toolInvocations": [OLD]},
        {"parts": [{"type": "tool-invocation", **OLD}, WORDS]},
        {
            "parts": [
                {
                    "type": "tool-invocation",
                    "toolCallId": "c1",
                    "toolName": "weather",
                    "input": {"city": "Rome"},
                    "output": "21",
                },
                WORDS,
            ]
        },
        {"content": [SEARCH, {"type": "web_search_tool_result", "tool_use_id": "c1", "content": "21"}, WORDS]},
        {
            "content": [
                SEARCH | {"type": "mcp_tool_use"},
                {"type": "mcp_tool_result", "tool_use_id": "c1", "content": "21"},
                WORDS,
            ]
        },
    ],
)
def test_a_message_that_holds_what_a_tool_answered_is_cut_where_it_was_interrupted(message):
    chat = to_steps([ASKED, {"role": "assistant", **message}])
    first, last = chat.steps
    assert (first.message, last.message) == ({"role": "assistant", "content": None, "tool_calls": [CALL]}, ANSWERED)
    (heard,) = last.context
    assert (heard["role"], heard["tool_call_id"], heard["content"]) == ("tool", "c1", "21")
    assert chat.waiting == []


@pytest.mark.parametrize(
    ("parts", "content"),
    [
        ([{"type": "step-start"}, WORDS], "21."),
        ([{"type": "redacted_thinking", "data": "…"}, WORDS], "21."),
        ([{"type": "text", "text": "It's "}, {"type": "text", "text": "21.", "citations": [{}]}], "It's 21."),
        ([{"text": "It's "}, "21."], "It's 21."),
        (
            [WORDS, {"type": "step-start"}, WORDS, {"type": "image", "image": "…"}],
            [WORDS, WORDS, {"type": "image", "image": "…"}],
        ),
    ],
)
def test_an_answer_is_what_the_policy_wrote_without_marks_or_breaks(parts, content):
    (step,) = to_steps([ASKED, {"role": "assistant", "content": parts}]).steps
    assert step.message == {"role": "assistant", "content": content}


def test_bedrocks_parts_are_read():
    thought = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "…"}}}
    asks = {"toolUse": {"toolUseId": "c1", "name": "weather", "input": {"city": "Rome"}}}
    results = [
        {"toolResult": {"toolUseId": "c1", "content": [{"text": "21"}], "status": "success"}},
        {"toolResult": {"toolUseId": "c2", "content": [{"json": {"line": None}}], "status": "error"}},
    ]
    chat = to_steps([ASKED, {"role": "assistant", "content": [thought, asks]}, {"role": "user", "content": results}])
    (step,) = chat.steps
    assert step.message == {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [CALL]}
    assert chat.waiting == [
        {"role": "tool", "tool_call_id": "c1", "content": "21"},
        {"role": "tool", "tool_call_id": "c2", "content": '{"line":null}', "is_error": True},
    ]


@pytest.mark.parametrize(("summary", "reasoning"), [("It's warm.", "It's warm."), (None, "")])
def test_encrypted_reasoning_is_not_text(summary, reasoning):
    thought = {"type": "reasoning", "reasoning": "gAAAAB…", "redacted": True, "summary": summary}
    (step,) = to_steps([ASKED, {"role": "assistant", "content": [thought, WORDS]}]).steps
    assert step.message == {**ANSWERED, "reasoning_content": reasoning}


def test_reasoning_in_chunks_is_one_text():
    chunks = [{"type": "text", "text": "It's "}, {"type": "text", "text": "warm."}]
    thought = {"type": "thinking", "thinking": chunks}
    (step,) = to_steps(
        [ASKED, {"role": "assistant", "content": [thought, WORDS], "reasoning": {"effort": "low"}}]
    ).steps
    assert (step.message, step.info) == (
        {**ANSWERED, "reasoning_content": "It's warm."},
        {"reasoning": {"effort": "low"}},
    )


@pytest.mark.parametrize(
    "parts",
    [
        [SEARCH, {"type": "web_search_tool_result", "tool_use_id": "c1", "content": "21"}, WORDS],
        [{"type": "step-start"}, invoked(type="tool-weather"), {"type": "step-start"}, WORDS],
    ],
)
def test_in_traces_too_an_answer_ends_where_a_tool_interrupted_it(parts):
    recorded = [ASKED, {"role": "assistant", "content": parts}]
    chat = to_steps(read_payload(recorded, "user").messages)
    assert [step.message for step in chat.steps] == [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        ANSWERED,
    ]
    (heard,) = chat.steps[1].context
    assert (heard["role"], heard["tool_call_id"], heard["content"]) == ("tool", "c1", "21")


def test_calls_in_a_row_were_made_at_once():
    calls = [invoked(type="tool-weather"), invoked(type="tool-weather", toolCallId="c2")]
    together = to_steps([{"role": "assistant", "parts": [*calls, WORDS]}]).steps
    apart = to_steps([{"role": "assistant", "parts": [calls[0], {"type": "step-start"}, calls[1], WORDS]}]).steps
    assert [len(step.message.get("tool_calls", [])) for step in together] == [2, 0]
    assert [len(step.message.get("tool_calls", [])) for step in apart] == [1, 1, 0]


def test_a_call_after_a_result_of_its_own_part_is_another_turn():
    result = {"type": "web_search_tool_result", "tool_use_id": "c1", "content": []}
    steps = to_steps([{"role": "assistant", "content": [SEARCH, result, {**SEARCH, "id": "c2"}]}]).steps
    assert [[call["id"] for call in step.message["tool_calls"]] for step in steps] == [["c1"], ["c2"]]


@pytest.mark.parametrize(
    ("part", "content"),
    [
        (invoked(type="tool-weather", state="output-error", errorText="No line."), "No line."),
        (
            {"type": "tool", "callID": "c1", "tool": "weather", "state": {"status": "error", "error": "No line."}},
            "No line.",
        ),
    ],
)
def test_a_call_that_failed_has_an_error_for_a_result(part, content):
    chat = to_steps([{"role": "assistant", "content": [part]}])
    assert (chat.waiting[0]["content"], chat.waiting[0]["is_error"]) == (content, True)


@pytest.mark.parametrize("state", ["input-available", "call", "partial-call"])
def test_a_call_that_still_runs_has_no_result(state):
    chat = to_steps([{"role": "assistant", "content": [invoked(type="tool-weather", state=state)]}])
    assert (len(chat.steps), chat.waiting) == (1, [])


def test_messages_of_the_ai_sdk_have_their_calls_and_results():
    chat = to_steps(
        [
            ASKED,
            {
                "role": "assistant",
                "content": [
                    {"type": "tool-call", "toolCallId": "c1", "toolName": "weather", "input": {"city": "Rome"}}
                ],
            },
            {
                "role": "tool",
                "content": [
                    {
                        "type": "tool-result",
                        "toolCallId": "c1",
                        "toolName": "weather",
                        "output": {"type": "text", "value": "21"},
                    }
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "21."}]},
        ]
    )
    assert [step.message for step in chat.steps] == [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        ANSWERED,
    ]
    assert chat.steps[1].context == [{"role": "tool", "tool_call_id": "c1", "name": "weather", "content": "21"}]


@pytest.mark.parametrize(
    "stored",
    [
        lambda kind, data: {"type": kind, "data": {**data, "type": kind}},
        lambda kind, data: {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", kind.title() + "Message"],
            "kwargs": data,
        },
        lambda kind, data: {**data, "type": kind.title() + "MessageChunk"},
    ],
)
def test_messages_of_langchain_come_out_of_their_wrapping(stored):
    called = {
        "content": "",
        "tool_calls": [{"name": "weather", "args": {"city": "Rome"}, "id": "c1", "type": "tool_call"}],
    }
    chat = to_steps(
        [stored("human", {"content": "How warm is it?"}), stored("ai", called), stored("ai", {"content": "21."})]
    )
    assert [message["content"] for message in (*chat.steps[0].context, chat.steps[0].message)] == [
        "How warm is it?",
        "",
    ]
    assert [step.message.get("tool_calls") for step in chat.steps] == [[CALL], None]


@pytest.mark.parametrize(
    ("item", "name", "arguments", "heard"),
    [
        (
            {"type": "web_search_call", "id": "w", "status": "completed", "action": {"query": "x"}},
            "web_search",
            {"query": "x"},
            [],
        ),
        (
            {
                "type": "code_interpreter_call",
                "code": "1",
                "outputs": [{"type": "logs", "logs": "1"}],
                "container_id": "k",
            },
            "code_interpreter",
            {"code": "1"},
            ["1"],
        ),
        ({"type": "mcp_call", "name": "look", "arguments": "{}", "output": "a"}, "look", "{}", ["a"]),
        ({"type": "custom_tool_call", "name": "patch", "input": "***"}, "patch", {"input": "***"}, []),
    ],
)
def test_calls_of_tools_that_are_built_into_the_responses(item, name, arguments, heard):
    chat = to_steps([ASKED, item])
    (call,) = chat.steps[0].message["tool_calls"]
    assert call["function"] == {"name": name, "arguments": arguments}
    assert [message["content"] for message in chat.waiting] == heard


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_words_under_a_key_that_is_not_known_are_not_lost_without_a_word(role):
    with pytest.raises(BadRow, match=f"A message of the {role} has no `content`; it has `utterance`."):
        to_steps([{"role": role, "utterance": "Hi"}])


@pytest.mark.parametrize("message", [{"role": "assistant"}, {"role": "user", "name": "u", "mask": True}])
def test_a_message_may_say_nothing(message):
    assert to_steps([message])


def test_words_that_stand_beside_their_parts_are_told_once():
    message = {"role": "user", "content": "Hi", "parts": [{"type": "text", "text": "Hi"}]}
    assert to_steps([message]).waiting == [message]
