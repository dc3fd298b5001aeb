"""Retrace's own JSON Lines: the rich form is read back unchanged, the simple form becomes a chat."""

import copy

import pytest

from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.parts import CHAT, TOOLS
from tests.ingest.formats.rows import read, refusal


def test_the_rich_form_reads_back_what_was_written():
    record = read("retrace", EXAMPLES["retrace"])
    again = read("retrace", record.to_json())
    assert again == record
    assert list(record.messages()) == [*CHAT, {"role": "user", "content": "thanks"}]
    assert (record.task.key, record.task.environment, record.task.initial_state) == ("k", "e", {"a": 1})
    assert (record.policy, record.id, record.tools, record.tags) == ("p", "r1", TOOLS, ["a"])
    assert (record.reward, record.success, record.termination, record.info) == (1.0, True, "done", {"n": 1})
    assert [(s.reward, s.done, s.seconds, s.prompt_tokens, s.info) for s in record.steps] == [
        (0.5, False, 1.5, None, {}),
        (1.0, True, None, 9, {"x": 1}),
    ]


def test_equal_records_have_one_hash_whatever_the_order_of_keys():
    row = copy.deepcopy(EXAMPLES["retrace"])
    turned = dict(reversed(row.items()))
    turned["task"] = dict(reversed(row["task"].items()))
    assert read("retrace", turned).content_hash() == read("retrace", row).content_hash()


@pytest.mark.parametrize(
    "change",
    [{"id": "r2"}, {"policy": "q"}, {"tags": []}, {"outcome": {}}, {"task": {"key": "other"}}, {"info": {"trial": 2}}],
)
def test_anything_else_in_a_record_makes_another_trajectory(change):
    row = EXAMPLES["retrace"]
    assert read("retrace", {**row, **change}).content_hash() != read("retrace", row).content_hash()


def test_only_task_and_steps_are_needed():
    record = read("retrace", {"task": {"key": "k"}, "steps": [{"message": {"role": "assistant", "content": "x"}}]})
    assert (record.reward, record.success, record.termination, record.policy, record.closing) == (
        None,
        None,
        "",
        None,
        [],
    )
    assert read("retrace", {"format": "retrace/1", "task": {"key": "k"}, "steps": []}).steps == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": "retrace/2"}, "The format is retrace/2."),
        ({"task": {"instruction": "x"}}, "`task` has no key."),
        ({"task": None}, "`task` has no key."),
        ({"steps": None}, "`steps` is null."),
        ({"steps": [7]}, "Step 0 is a number."),
        ({"steps": [{"message": {"role": "user"}}]}, "Step 0 has no assistant message."),
        ({"steps": [{"context": 3, "message": {"role": "assistant"}}]}, "Step 0 has a `context` that is a number."),
        (
            {"steps": [{"context": [{"role": "x"}], "message": {"role": "assistant"}}]},
            "A message of step 0 has the role “x”.",
        ),
        (
            {"steps": [{"message": {"role": "assistant", "content": 1}}]},
            "A message of step 0 has a `content` that is a number.",
        ),
        (
            {"steps": [{"message": {"role": "assistant", "tool_calls": [{}]}}]},
            "Step 0 has tool calls in another shape.",
        ),
        ({"closing": {}}, "`closing` is an object."),
        ({"tools": "x"}, "`tools` is a string."),
    ],
)
def test_a_rich_record_with_a_fault_is_refused_with_where_it_is(change, reason):
    assert refusal("retrace", {**EXAMPLES["retrace"], **change})[0] == reason


def test_the_simple_form_becomes_a_chat_with_tool_calls():
    record = read("retrace-simple", EXAMPLES["retrace-simple"])
    call = {"id": "call_1", "type": "function", "function": {"name": "go", "arguments": {"to": "north"}}}
    assert list(record.messages()) == [
        {"role": "user", "content": "open the door"},
        {"role": "user", "content": "a door"},
        {"role": "assistant", "content": "open door"},
        {"role": "user", "content": "it is open"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "outside"},
    ]
    assert [(s.reward, s.done) for s in record.steps] == [(0.0, False), (1.0, True)]
    assert (record.reward, record.termination, record.success) == (1.0, "done", None)  # the return: 0 + 1


def test_the_instruction_is_not_said_twice():
    record = read("retrace-simple", {"task_id": 3, "instruction": "go", "steps": [{"obs": "Task: go", "action": "x"}]})
    assert [m["content"] for m in record.messages()] == ["Task: go", "x"]
    assert record.task.key == "3"


def test_a_stated_reward_wins_and_a_missing_one_stays_unknown():
    steps = [{"obs": "", "action": "x"}]
    assert read("retrace-simple", {"task_id": "t", "steps": steps}).reward is None
    assert read("retrace-simple", {"task_id": "t", "steps": steps, "reward": 1.37}).reward == 1.37
    assert read("retrace-simple", {"task_id": "t", "steps": steps, "reward": True}).reward == 1.0
    assert read("retrace-simple", {"task_id": "t", "steps": steps, "reward": "n/a"}).reward is None


def test_observations_that_are_no_text_are_written_as_json_and_extra_keys_are_kept():
    step = {"obs": {"b": [1], "a": None}, "action": ["up", 2], "thought": "hm", "valid": False}
    record = read("retrace-simple", {"task_id": "t", "steps": [step], "level": 4})
    assert record.steps[0].context == [{"role": "user", "content": '{"b":[1],"a":null}'}]
    assert record.steps[0].message == {"role": "assistant", "content": '["up",2]', "reasoning_content": "hm"}
    assert (record.steps[0].info, record.info) == ({"valid": False}, {"level": 4})


@pytest.mark.parametrize(
    ("steps", "contents"),
    [
        ([{"obs": "o", "action": "a"}, {"obs": "p", "action": "b"}], ["go", "o", "a", "p", "b"]),
        ([{"observation": "o", "action": "a"}, {"observation": "p", "action": "b"}], ["go", "o", "a", "p", "b"]),
        ([{"thought": "t", "action": "a", "observation": "o"}, {"action": "b"}], ["go", "a", "o", "b"]),
        ([{"action": "a", "observation": "o"}, {"action": "b", "observation": "p"}], ["go", "a", "o", "b", "p"]),
        (
            [{"action": "a", "observation": "Task: go"}, {"action": "b", "observation": "p"}],
            ["Task: go", "a", "p", "b"],
        ),
        ([{"state": "o", "action": "a", "next_state": "p"}, {"state": "p", "action": "b"}], ["go", "o", "a", "p", "b"]),
        ([{"obs": "o", "action": "a", "result": "r"}, {"obs": "p", "action": "b"}], ["go", "o", "a", "r", "p", "b"]),
        ([{"obs": "o", "action": "a"}, {"obs": "p", "action": None, "done": 1}], ["go", "o", "a", "p"]),
    ],
)
@pytest.mark.parametrize("key", ["steps", "trajectory"])
def test_observations_stand_where_they_were_made(key, steps, contents):
    record = read("retrace-simple", {"goal": "go", key: steps})
    assert [message["content"] for message in record.messages()] == contents


@pytest.mark.parametrize(
    ("action", "arguments"),
    [
        ({"tool": "go", "input": {"to": "north"}}, {"to": "north"}),
        ({"action_type": "go", "to": "north"}, {"to": "north"}),
        ({"name": "go", "args": '{"to": "north"}'}, '{"to": "north"}'),
        ({"name": "go"}, {}),
    ],
)
def test_an_action_with_a_name_is_a_call(action, arguments):
    record = read("retrace-simple", {"task_id": "t", "steps": [{"action": action}]})
    (call,) = record.steps[0].message["tool_calls"]
    assert call["function"] == {"name": "go", "arguments": arguments}


def test_lists_beside_a_list_of_actions_are_steps():
    row = {
        "episode_id": 5,
        "goal": "open it",
        "actions": ["tap", "wait"],
        "observations": ["o", "p", "q"],
        "rewards": [0, 1],
        "dones": [False, True],
        "step_instructions": ["tap it", "wait"],
    }
    record = read("retrace-simple", row)
    assert [m["content"] for m in record.messages()] == ["open it", "o", "tap", "p", "wait", "q"]
    assert [(s.reward, s.done, s.info) for s in record.steps] == [
        (0.0, False, {"step_instruction": "tap it"}),
        (1.0, True, {"step_instruction": "wait"}),
    ]
    assert (record.task.key, record.id, record.reward, record.info) == ("open it", "5", 1.0, {})


def test_runs_of_a_task_under_other_names_are_one_task():
    steps = [{"observation": "page", "action": "click"}, {"observation": "cart", "action": "stop"}]
    rows = [{"task_id": 7, "intent": "buy", "domain": "shop", "trajectory": steps, "score": s} for s in (0, 1)]
    records = [read("retrace-simple", row) for row in rows]
    assert {(r.task.environment, r.task.key, r.task.instruction) for r in records} == {("shop", "7", "buy")}
    assert [record.reward for record in records] == [0.0, 1.0]


def test_runs_that_name_no_task_are_told_apart_by_what_they_saw_first():
    keys = [read("retrace-simple", {"steps": [{"obs": seen, "action": "x"}]}).task.key for seen in ("a", "b", "a")]
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"steps": [{"action": "x"}]}, "Neither `task_id` nor `instruction` says which task this is."),
        ({"task_id": "t", "steps": [{"action": "x"}, {"obs": "y"}, {"action": "z"}]}, "Step 1 has no action."),
        ({"task_id": "t", "steps": [{"action": "x"}, {"reward": 1}]}, "Step 1 has no action."),
        ({"task_id": "t", "steps": "none"}, "`steps` is a string."),
        ({"task_id": "t"}, "`steps` is missing."),
    ],
)
def test_a_simple_record_with_a_fault_is_refused(row, reason):
    assert refusal("retrace-simple", row)[0] == reason


def test_steps_of_agentnet_say_what_was_done_under_value():
    value = {"observation": "A table.", "thought": "I sort.", "action": "Click on C2.", "code": "click(1, 2)"}
    row = {
        "task_id": "t",
        "instruction": "Sort.",
        "task_completed": False,
        "traj": [{"index": 0, "image": "a.png", "value": value}],
    }
    record = read("retrace-simple", row)
    (step,) = record.steps
    assert [message["content"] for message in step.context] == ["Sort.", "A table."]
    assert step.message == {"role": "assistant", "content": "click(1, 2)", "reasoning_content": "I sort."}
    assert (step.info["described"], step.info["image"], record.success) == ("Click on C2.", "a.png", False)


def test_steps_of_langchains_executor_are_calls_and_what_they_brought():
    call = {"tool": "look", "tool_input": {"at": "a"}, "log": "I look.", "type": "AgentAction"}
    record = read("retrace-simple", {"input": "Where?", "output": "There.", "intermediate_steps": [[call, "found"]]})
    first, last = record.steps
    assert (first.context, first.info) == ([{"role": "user", "content": "Where?"}], {"log": "I look."})
    assert first.message["tool_calls"][0]["function"] == {"name": "look", "arguments": {"at": "a"}}
    assert last.context == [{"role": "tool", "tool_call_id": "call_0", "content": "found"}]
    assert (last.message["content"], record.task.instruction, record.info) == ("There.", "Where?", {})


def test_the_text_that_an_action_was_read_out_of_is_what_the_model_wrote():
    steps = [{"observation": "[1] link", "action": "click [1]", "raw_prediction": "I see it. ```click [1]```"}]
    record = read("retrace-simple", {"task_id": 7, "intent": "Go there.", "trajectory": steps})
    (step,) = record.steps
    assert (step.message["content"], step.info) == ("I see it. ```click [1]```", {"action": "click [1]"})
    # Nor was a thought in it written a second time.
    (read_out,) = read("retrace-simple", {"task_id": 7, "trajectory": [{**steps[0], "thought": "I see it."}]}).steps
    assert read_out.message == step.message
    (apart,) = read("retrace-simple", {"task_id": 7, "trajectory": [{**steps[0], "thought": "A link."}]}).steps
    assert apart.message == {**step.message, "reasoning_content": "A link."}


def test_pages_as_accessibility_trees_are_what_was_seen_and_the_last_of_them_where_it_ended():
    """As in AgentRewardBench: the last step has no action."""
    steps = [
        {"axtree": "[1] link", "action": "click(1)", "reasoning": "There it is.", "reward": 0},
        {"axtree": "[2] done", "action": None, "reasoning": None, "reward": 1},
    ]
    record = read("retrace-simple", {"goal": "Go there.", "steps": steps})
    (step,) = record.steps
    assert [message["content"] for message in step.context] == ["Go there.", "[1] link"]
    assert (step.reward, record.reward, record.closing[0]["content"]) == (1.0, 1.0, "[2] done")
    unseen = [{"action": "click(1)", "axtree": "[1] link"}, {"action": None, "url": "http://a"}]
    assert len(read("retrace-simple", {"goal": "Go there.", "steps": unseen}).steps) == 1
