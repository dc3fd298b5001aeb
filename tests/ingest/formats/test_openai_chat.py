"""OpenAI-style chats: an object with messages, a bare list, and additional columns."""

import json

import pytest

from apps.ingest import formats
from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.parts import CHAT, TOOLS
from tests.ingest.formats.rows import read, refusal

HELLO = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


def test_a_chat_with_tools_and_reward():
    record = read("openai-chat", EXAMPLES["openai-chat"])
    assert [step.context for step in record.steps] == [
        [CHAT[0], {"role": "user", "content": "List the files."}],
        [CHAT[3]],
    ]
    assert [step.message for step in record.steps] == [CHAT[2], CHAT[4]]
    assert (record.tools, record.reward, record.policy, record.success) == (TOOLS, 1.0, "m", None)
    assert record.steps[-1].prompt_tokens == 1
    assert record.task.instruction == "List the files."


@pytest.mark.parametrize(
    "key", ["messages", "conversation", "conversations", "chat", "trajectory", "turns", "input", "chat_history"]
)
@pytest.mark.parametrize(
    "spell", [lambda chat: chat, json.dumps, lambda chat: {k: [m[k] for m in chat] for k in chat[0]}]
)
def test_the_messages_are_found_under_their_keys_as_a_list_as_text_and_as_columns(key, spell):
    record = read("openai-chat", {key: spell(HELLO), "seed": 3})
    assert (list(record.messages()), record.info) == (HELLO, {"seed": 3})


def test_a_bare_list_of_messages_is_a_chat():
    assert list(read("openai-chat", HELLO).messages()) == HELLO


@pytest.mark.parametrize("beside", ["choices", "response"])
def test_the_answer_of_a_logged_request_belongs_to_its_chat(beside):
    choices = [{"message": HELLO[1], "finish_reason": "stop"}]
    logged = {"choices": choices} if beside == "choices" else {"response": {"choices": choices}}
    assert list(read("openai-chat", {"messages": HELLO[:1], **logged}).messages()) == HELLO
    assert list(read("openai-chat", {"messages": HELLO, **logged}).messages()) == HELLO


@pytest.mark.parametrize(
    "row",
    [
        {"messages": HELLO[:1], "response": "Hello"},
        {"messages": HELLO[:1], "response": HELLO[1]},
        {"input": HELLO[:1], "output": "Hello"},
        {"input": HELLO[:1], "output": [{"type": "message", **HELLO[1]}]},
        {"input": HELLO[:1], "output": [{"finish_reason": "stop", "message": HELLO[1]}]},
        {"request": {"body": {"messages": HELLO[:1]}}, "response": {"body": {"choices": [{"message": HELLO[1]}]}}},
        {"request": {"messages": HELLO[:1]}, "response": {"body": {"choices": [{"message": HELLO[1]}]}}},
    ],
)
def test_an_answer_beside_its_messages_belongs_to_them(row):
    record = read("openai-chat", row)
    assert (list(record.messages()), record.info) == (HELLO, {})


def test_what_else_is_said_beside_an_answered_chat_is_kept():
    record = read("openai-chat", {"messages": HELLO, "response": "Another"})
    assert (list(record.messages()), record.info) == (HELLO, {"response": "Another"})


@pytest.mark.parametrize("key", ["system", "system_prompt"])
def test_a_system_prompt_beside_the_messages_is_the_first_of_them(key):
    record = read("openai-chat", {"messages": HELLO, key: "Be brief."})
    assert record.steps[0].context == [{"role": "system", "content": "Be brief."}, HELLO[0]]
    already = [{"role": "system", "content": "Be long."}, *HELLO]
    assert list(read("openai-chat", {"messages": already, key: "Be brief."}).messages()) == already


def test_agents_that_speak_first_have_tasks_of_their_own():
    greeting = {"role": "assistant", "content": "What can I do?"}
    keys = [read("openai-chat", [greeting, {"role": "user", "content": ask}]).task.key for ask in ("a", "b", "a")]
    assert keys[0] == keys[2] != keys[1]


def test_what_comes_after_demonstrations_is_the_task():
    rules = [{"role": "user", "content": "Rules"}, {"role": "assistant", "content": "OK", "loss": False}]
    records = [read("openai-chat", [*rules, {"role": "user", "content": ask}, HELLO[1]]) for ask in ("a", "b")]
    assert [record.task.instruction for record in records] == ["a", "b"]
    assert records[0].task.key != records[1].task.key


def test_equal_prompts_are_the_same_task_and_other_prompts_are_not():
    other = [{"role": "user", "content": "Bye"}, HELLO[1]]
    keys = [read("openai-chat", row).task.key for row in (HELLO, {"messages": [HELLO[0]], "model": "x"}, other)]
    assert keys[0] == keys[1] != keys[2]


def test_a_named_task_keeps_its_name():
    assert read("openai-chat", {"messages": HELLO, "task_id": 0}).task.key == "0"
    record = read("openai-chat", {"messages": HELLO, "instance_id": "a__b-1", "problem_statement": "It breaks."})
    assert (record.task.environment, record.task.key) == ("swe-bench", "a__b-1")  # as in SWE-agent's own logs
    assert record.task.instruction == "It breaks."


def test_what_a_row_says_besides_is_kept():
    record = read(
        "openai-chat", {"messages": HELLO, "label": True, "info": {"oai_tools": TOOLS, "seed": 3}, "none": None}
    )
    assert record.info == {"label": True, "seed": 3}
    assert record.tools == TOOLS


@pytest.mark.parametrize(
    ("value", "reward"),
    [(1, 1.0), (True, 1.0), ("0.5", 0.5), (1.37, 1.37), (-2, -2.0), (None, None), ({}, None), ("good", None)],
)
def test_rewards_are_numbers_or_unknown(value, reward):
    assert read("openai-chat", {"messages": HELLO, "reward": value}).reward == reward


def test_rewards_beside_messages_are_those_of_their_steps():
    record = read("openai-chat", [HELLO[0], {**HELLO[1], "reward": 0.5}, HELLO[0], {**HELLO[1], "reward": "1"}])
    assert ([step.reward for step in record.steps], record.reward) == ([0.5, 1.0], 1.5)


def test_a_chat_that_nobody_answered_has_no_steps():
    record = read("openai-chat", [HELLO[0]])
    assert (record.steps, record.closing) == ([], [HELLO[0]])


def test_a_run_of_a_named_task_that_never_began_has_no_steps():
    chats = formats.named("openai-chat")
    (record,) = chats.read({"messages": [], "task_id": "t", "success": False}, "file.jsonl")
    assert (record.steps, record.task.key, record.success) == ([], "t", False)
    assert refusal("openai-chat", {"messages": []})[0] == "There are no messages."


def test_a_developer_and_a_null_content_are_kept():
    record = read("openai-chat", [{"role": "developer", "content": "d"}, {"role": "assistant", "content": None}])
    assert record.steps[0].context == [{"role": "developer", "content": "d"}]
    assert record.steps[0].message == {"role": "assistant", "content": None}


@pytest.mark.parametrize(
    "row",
    [
        {"messages": []},
        {"messages": "hello"},
        {"messages": [{"role": "Orchestrator (thought)", "content": "x"}]},
        {"messages": HELLO, "chosen": "x"},
        {"history": HELLO},
        [],
        [1],
    ],
)
def test_other_things_are_not_taken_for_chats(row):
    assert not formats.named("openai-chat").recognizes(row)


def test_a_role_that_no_template_knows_is_refused_with_the_ones_that_are():
    reason, expected = refusal("openai-chat", {"messages": [*HELLO, {"role": "exit", "content": ""}]})
    assert reason == "A message has the role “exit”."
    assert "system, developer, user, assistant, tool" in expected


@pytest.mark.parametrize(
    ("path", "trajectories", "steps"),
    [
        ("llamafactory-demos/kto_en_demo.json", 300, 487),
        ("llamafactory-demos/reason_tool_use_demo_50.jsonl", 50, 112),
        ("llamafactory-demos/v1_sft_demo.jsonl", 500, 500),
    ],
)
def test_real_files(real_file, path, trajectories, steps):
    records = real_file(path)
    assert (records.format, len(records.records), sum(len(r.steps) for r in records.records)) == (
        "openai-chat",
        trajectories,
        steps,
    )
    assert records.rejected == []


def test_reasoning_and_calls_in_typed_parts_of_a_real_file(real_file):
    records = real_file("llamafactory-demos/reason_tool_use_demo_50.jsonl").records
    assert all(step.message.get("reasoning_content") for record in records for step in record.steps[:1])
    calls = [call for record in records for step in record.steps for call in step.message.get("tool_calls", [])]
    assert len(calls) >= 53
    assert all(call["function"]["name"] for call in calls)
    assert sum(bool(record.tools) for record in records) == 48


@pytest.mark.parametrize("key", ["conversation_id", "session_id", "threadId"])
def test_single_messages_of_several_chats_are_a_run_each(key):
    mixed = [{**message, key: name} for message in HELLO for name in ("a", 7)]
    first, second = formats.named("openai-chat").read(mixed, "f")
    assert (first.id, second.id) == ("a", "7")
    assert [len(record.steps) for record in (first, second)] == [1, 1]
    assert first.part["messages"] == [mixed[0], mixed[2]]
    assert read("openai-chat", [{**message, key: "a"} for message in HELLO]).id == ""


@pytest.mark.parametrize(
    "wrap", [lambda choices: {"choices": choices}, lambda choices: {"response": {"choices": choices}}]
)
def test_several_answers_to_a_logged_request_are_runs_of_one_task(wrap):
    choices = [{"index": place, "message": {"role": "assistant", "content": text}} for place, text in enumerate("ab")]
    records = list(formats.named("openai-chat").read({"messages": HELLO[:1], **wrap(choices)}, "f"))
    assert [record.steps[0].message["content"] for record in records] == ["a", "b"]
    assert len({record.task.key for record in records}) == 1


def test_a_response_of_openais_api_begins_with_its_instructions():
    row = {
        "object": "response",
        "instructions": "Be brief.",
        "input": HELLO[:1],
        "output": [{"type": "message", **HELLO[1]}],
    }
    assert list(read("openai-chat", row).messages()) == [{"role": "system", "content": "Be brief."}, *HELLO]
    assert list(read("openai-chat", {**row, "object": None}).messages()) == HELLO


def test_a_chat_may_be_written_down_as_one_text():
    chat = "USER: How warm?\n\n\nASSISTANT: <functioncall> {} <|endoftext|>\n\n\nFUNCTION RESPONSE: 21\n\n\nASSISTANT: 21 °C. <|endoftext|>"
    record = read("openai-chat", {"system": "Be brief.", "chat": chat})
    assert [(message["role"], message["content"]) for message in record.messages()] == [
        ("system", "Be brief."),
        ("user", "How warm?"),
        ("assistant", "<functioncall> {}"),
        ("tool", "21"),
        ("assistant", "21 °C."),
    ]


def test_options_of_a_question_are_no_answers_of_the_policy():
    assert len(read("openai-chat", {"messages": CHAT, "choices": ["A", "B", "C", "D"]}).messages()) == len(CHAT)


def test_an_answer_that_ends_its_messages_is_not_repeated():
    row = {"messages": CHAT, "response": {**CHAT[-1], "refusal": None}}
    assert len(read("openai-chat", row).messages()) == len(CHAT)
