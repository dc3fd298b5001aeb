"""Chats in the forms found in logs become OpenAI's, without changing their content."""

import json

import pytest

from apps.ingest.normalization.conversation import to_steps, tool_schemas
from apps.ingest.records import BadRow

USER = {"role": "user", "content": "go"}


def call(arguments: object = '{"a": 1}', identifier: str = "c1", name: str = "look") -> dict:
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": arguments}}


def steps_of(*messages: object):
    return to_steps(messages).steps


def test_a_step_ends_with_each_assistant_message_and_the_rest_is_closing():
    system, answer, thanks = (
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "t"},
    )
    chat = to_steps([system, USER, answer, answer, thanks])
    assert [step.context for step in chat.steps] == [[system, USER], []]
    assert [step.message for step in chat.steps] == [answer, answer]
    assert chat.waiting == [thanks]


def test_a_chat_without_an_assistant_has_no_steps():
    chat = to_steps([USER])
    assert (chat.steps, chat.waiting) == ([], [USER])


@pytest.mark.parametrize(
    "entry",
    [
        call(),
        json.dumps(call()),
        json.dumps(json.dumps(call())),
        {"id": "c1", "name": "look", "arguments": '{"a": 1}'},
        {"call_id": "c1", "type": "function_call", "name": "look", "arguments": '{"a": 1}'},
        {"id": "c1", "function": "look", "arguments": '{"a": 1}'},
        {"id": "c1", "name": "look", "args": '{"a": 1}', "type": "tool_call"},
        {**call(), "index": 0},
        call(json.dumps('{"a": 1}')),
    ],
)
def test_every_spelling_of_a_call_becomes_one(entry):
    (step,) = steps_of(USER, {"role": "assistant", "content": None, "tool_calls": [entry]})
    assert step.message == {"role": "assistant", "content": None, "tool_calls": [call()]}


@pytest.mark.parametrize("arguments", [{"a": 1}, '{"a": 1', "", "ls -la", '{"a": "\\ud800"}'])
def test_arguments_stay_as_the_policy_produced_them(arguments):
    (step,) = steps_of({"role": "assistant", "tool_calls": [call(arguments)]})
    assert step.message["tool_calls"][0]["function"]["arguments"] == arguments


def test_a_call_list_may_itself_be_a_json_string():
    (step,) = steps_of({"role": "assistant", "content": "", "tool_calls": json.dumps([call()])})
    assert step.message["tool_calls"] == [call()]


def test_calls_and_results_without_ids_are_matched_in_order():
    nameless = {"function": {"name": "look", "arguments": "{}"}}
    chat = to_steps(
        [
            {"role": "assistant", "content": "", "tool_calls": [nameless, nameless]},
            {"role": "tool", "content": "first"},
            {"role": "tool", "content": "second"},
            {"role": "assistant", "content": "", "tool_calls": [nameless]},
            {"role": "tool", "content": "third"},
            {"role": "tool", "content": "nobody asked"},
        ]
    )
    assert [c["id"] for step in chat.steps for c in step.message["tool_calls"]] == ["call_0", "call_1", "call_2"]
    assert [(m.get("tool_call_id"), m["content"]) for m in chat.steps[1].context] == [
        ("call_0", "first"),
        ("call_1", "second"),
    ]
    assert chat.waiting == [
        {"role": "tool", "tool_call_id": "call_2", "content": "third"},
        {"role": "tool", "content": "nobody asked"},
    ]


def test_a_result_without_an_id_answers_the_latest_turn_even_if_an_earlier_call_has_none():
    nameless = {"function": {"name": "look", "arguments": "{}"}}
    asks_twice = {"role": "assistant", "content": None, "tool_calls": [nameless, nameless]}
    chat = to_steps(
        [
            asks_twice,
            {"role": "tool", "content": "both at once"},
            asks_twice,
            {"role": "tool", "content": "third"},
            {"role": "tool", "content": "fourth"},
            {"role": "tool", "content": "late"},
        ]
    )
    assert [message["tool_call_id"] for message in chat.steps[1].context] == ["call_0"]
    assert [message["tool_call_id"] for message in chat.waiting] == ["call_2", "call_3", "call_1"]


def test_parallel_calls_with_reasoning_in_between_are_answered_in_order():
    thought = {"type": "reasoning", "summary": [{"text": "hm"}]}
    asked = {"type": "function_call", "name": "look", "arguments": "{}"}
    chat = to_steps([thought, asked, thought, asked, *({"role": "tool", "content": text} for text in ("a", "b"))])
    assert [message["tool_call_id"] for message in chat.waiting] == ["call_0", "call_1"]


@pytest.mark.parametrize(
    "answer",
    [
        {"content": None, "refusal": "I can't."},
        {"content": "", "refusal": "I can't."},
        {"content": [{"type": "refusal", "refusal": "I can't."}]},
    ],
)
def test_a_refusal_is_what_the_policy_wrote(answer):
    (step,) = steps_of(USER, {"role": "assistant", **answer})
    assert step.message == {"role": "assistant", "content": "I can't."}


def test_a_result_that_names_its_tool_answers_the_open_call_of_that_tool():
    calls = [call(identifier="c1", name="look"), call(identifier="c2", name="take")]
    chat = to_steps([{"role": "assistant", "tool_calls": calls}, {"role": "tool", "name": "take", "content": "t"}])
    assert chat.waiting[0]["tool_call_id"] == "c2"


def test_results_answer_calls_whose_ids_are_numbers():
    calls = [{"id": number, "function": {"name": "f", "arguments": "{}"}} for number in (1, 2)]
    results = [{"role": "tool", "tool_call_id": number, "content": f"of {number}"} for number in (2, 1)]
    closing = to_steps([{"role": "assistant", "content": None, "tool_calls": calls}, *results]).waiting
    assert [(result["tool_call_id"], result["content"]) for result in closing] == [("2", "of 2"), ("1", "of 1")]


def test_a_call_entry_with_empty_content_is_the_call():
    conversation = to_steps([{"type": "mcp_call", "name": "f", "arguments": "{}", "content": [], "output": "done"}])
    assert conversation.steps[0].message["tool_calls"][0]["function"] == {"name": "f", "arguments": "{}"}
    assert [result["content"] for result in conversation.waiting] == ["done"]


def test_an_id_of_the_message_itself_is_not_taken_for_the_calls():
    chat = to_steps([{"role": "assistant", "tool_calls": [call()]}, {"role": "tool", "id": "msg_7", "content": "r"}])
    assert chat.waiting[0]["tool_call_id"] == "c1"
    chat = to_steps([{"role": "assistant", "tool_calls": [call()]}, {"role": "tool", "id": "c1", "content": "r"}])
    assert chat.waiting[0]["tool_call_id"] == "c1"


def test_the_legacy_function_call_is_a_tool_call():
    chat = to_steps(
        [
            {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
            {"role": "function", "name": "look", "content": "seen"},
        ]
    )
    assert chat.steps[0].message["tool_calls"][0]["function"] == {"name": "look", "arguments": "{}"}
    assert chat.waiting == [{"role": "tool", "tool_call_id": "call_0", "name": "look", "content": "seen"}]


def test_calls_and_reasoning_that_are_entries_of_their_own_belong_to_one_turn():
    look, find = (
        {"type": "function_call", "call_id": id, "name": name, "arguments": "{}"} for id, name in ("ab", "cd")
    )
    chat = to_steps(
        [
            USER,
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
            *(look, find),
            {"type": "function_call_output", "call_id": "c", "output": "found"},
            {"type": "function_call_output", "call_id": "a", "output": "seen"},
            look,
        ]
    )
    assert [step.message for step in chat.steps] == [
        {
            "role": "assistant",
            "content": "Looking.",
            "reasoning_content": "hm",
            "tool_calls": [call("{}", "a", "b"), call("{}", "c", "d")],
        },
        {"role": "assistant", "content": None, "tool_calls": [call("{}", "a", "b")]},
    ]
    assert chat.steps[0].context == [USER]
    assert [(m["tool_call_id"], m["content"]) for m in chat.steps[1].context] == [("c", "found"), ("a", "seen")]


@pytest.mark.parametrize(
    "content",
    [
        '{"name": "look", "arguments": {"a": 1}}',
        '[{"name": "look", "arguments": {"a": 1}}]',
        "{'name': 'look', 'arguments': {'a': 1}}",
        '<tool_call>\n{"name": "look", "arguments": {"a": 1}}\n</tool_call>',
        {"name": "look", "arguments": {"a": 1}},
    ],
)
def test_a_call_may_be_what_an_entry_says(content):
    (step,) = steps_of(USER, {"role": "tool_call", "content": content})
    assert step.message == {"role": "assistant", "content": None, "tool_calls": [call({"a": 1}, "call_0")]}


def test_reasoning_that_nothing_follows_is_a_turn():
    chat = to_steps([USER, {"role": "reasoning", "content": "hm"}, USER, {"role": "assistant", "content": "ok"}])
    assert [(s.message["content"], s.message.get("reasoning_content")) for s in chat.steps] == [
        (None, "hm"),
        ("ok", None),
    ]


@pytest.mark.parametrize("mark", [{"loss": False}, {"weight": 0}])
def test_what_is_not_to_be_learned_is_context(mark):
    marked = {"role": "assistant", "content": None, "tool_calls": [call()], **mark}
    chat = to_steps(
        [USER, marked, {"role": "tool", "content": "r"}, {"role": "assistant", "content": "a", "loss": True}]
    )
    assert [message["role"] for message in chat.steps[0].context] == ["user", "assistant", "tool"]
    assert chat.steps[0].context[1:] == [marked, {"role": "tool", "tool_call_id": "c1", "content": "r"}]
    assert len(chat.steps) == 1


def test_anthropic_parts_become_reasoning_calls_and_results():
    chat = to_steps(
        [
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "Looking."},
                    {"type": "tool_use", "id": "t1", "name": "look", "input": {"a": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "content": [{"type": "text", "text": "no"}],
                        "is_error": True,
                    },
                    {"type": "text", "text": "go on"},
                ],
            },
        ]
    )
    assert chat.steps[0].message == {
        "role": "assistant",
        "content": "Looking.",
        "reasoning_content": "hm",
        "tool_calls": [call({"a": 1}, "t1")],
    }
    assert chat.waiting == [
        {"role": "tool", "tool_call_id": "t1", "content": "no", "is_error": True},
        {"role": "user", "content": "go on"},
    ]


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        ("text", "text"),
        ([{"type": "text", "text": "one"}], "one"),
        ([{"type": "text", "value": "one"}], "one"),
        (["one"], "one"),
        (
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        ),
        ([{"type": "image_url", "image_url": {"url": "u"}}], [{"type": "image_url", "image_url": {"url": "u"}}]),
        ([], ""),
        (None, ""),
        ({"ok": True}, '{"ok":true}'),
        ([1, 2], "[1,2]"),
        ([{"name": "a"}, {"name": "b"}], '[{"name":"a"},{"name":"b"}]'),
        ([{"image": {"format": "png"}}], [{"image": {"format": "png"}}]),
        (7, "7"),
    ],
)
def test_content_is_text_where_it_can_be_and_parts_where_it_must(content, kept):
    chat = to_steps([{"role": "tool", "content": content}])
    assert chat.waiting[0]["content"] == kept


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_is_found_under_its_keys(key):
    (step,) = steps_of({"role": "assistant", "content": "4", key: "2 and 2"})
    assert step.message == {"role": "assistant", "content": "4", "reasoning_content": "2 and 2"}


def test_what_stands_beside_the_message_goes_to_the_steps_info():
    (step,) = steps_of({"role": "assistant", "content": "4", "cost": 0.1, "annotations": None, "refusal": None})
    assert step.message == {"role": "assistant", "content": "4"}
    assert step.info == {"cost": 0.1}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("hello", "A message is a string."),
        ({"content": "x"}, "A message has the role “(none)”."),
        ({"role": "pirate"}, "A message has the role “pirate”."),
        ({"role": ["user"]}, 'A message has the role “["user"]”.'),
        ({"role": "assistant", "tool_calls": {"a": 1}}, "`tool_calls` is an object."),
        ({"role": "assistant", "tool_calls": [7]}, "A tool call is a number."),
        ({"role": "assistant", "tool_calls": [{}]}, "A tool call has no function name."),
        ({"role": "assistant", "content": 7}, "An assistant's `content` is a number."),
    ],
)
def test_a_message_that_makes_no_sense_is_refused_with_the_reason(message, reason):
    with pytest.raises(BadRow) as refused:
        to_steps([message])
    assert refused.value.reason == reason
    assert refused.value.expected


@pytest.mark.parametrize(
    "tools",
    [
        [{"type": "function", "function": {"name": "look", "parameters": {}}}],
        json.dumps([{"type": "function", "function": {"name": "look", "parameters": {}}}]),
        [{"name": "look", "parameters": {}}],
        [json.dumps({"name": "look", "parameters": {}})],
        {"name": "look", "parameters": {}},
    ],
)
def test_tools_are_found_in_every_spelling(tools):
    assert tool_schemas(tools) == [{"type": "function", "function": {"name": "look", "parameters": {}}}]


def test_tools_of_anthropic_are_functions_too():
    (tool,) = tool_schemas([{"name": "look", "description": "d", "input_schema": {"type": "object"}}])
    assert tool["function"] == {"name": "look", "description": "d", "parameters": {"type": "object"}}


@pytest.mark.parametrize("tools", [None, "not json", 7, [7]])
def test_what_is_no_list_of_tools_is_none(tools):
    assert tool_schemas(tools) == []


@pytest.mark.parametrize(
    "mark",
    [{"loss": False}, {"train": False}, {"trainable": False}, {"training": False}, {"weight": 0}, {"loss_mask": 0}],
)
def test_a_turn_that_is_marked_as_not_to_be_learned_is_context(mark):
    shown, own = {"role": "assistant", "content": "a", **mark}, {"role": "assistant", "content": "b"}
    (step,) = steps_of(USER, shown, USER, own)
    assert (step.message, step.context) == (own, [USER, shown, USER])
    learned = {key: 1 if value == 0 and value is not False else True for key, value in mark.items()}
    assert len(steps_of(USER, {**shown, **learned})) == 1


def test_reasoning_that_a_provider_keeps_for_itself_is_empty():
    (step,) = steps_of(
        USER, {"type": "reasoning", "summary": []}, {"type": "message", "role": "assistant", "content": "a"}
    )
    assert (step.message, step.context) == ({"role": "assistant", "content": "a"}, [USER])


def test_an_answer_looks_through_the_latest_thousand_open_calls_alone():
    calls = [{"id": f"c{place}", "function": {"name": "f", "arguments": "{}"}} for place in range(1500)]
    conversation = to_steps(
        [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "content": "by its id", "tool_call_id": "c3"},
            {"role": "tool", "content": "in order"},
        ]
    )
    assert [message["tool_call_id"] for message in conversation.waiting] == ["c3", "c500"]
