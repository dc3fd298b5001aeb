"""tau-bench results: outcomes are mapped explicitly, and the user's secret instruction is marked as such."""

import json

import pytest

from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.parts import CHAT
from tests.ingest.formats.rows import read, refusal

ROW = EXAMPLES["tau-bench"]
POLICY = [{"role": "system", "content": "# Airline Agent Policy\n\nThe current time …"}]


def test_a_run_and_how_it_ended():
    record = read("tau-bench", ROW)
    assert len(record.steps) == 2
    assert record.closing == [{"role": "user", "content": "###STOP###"}]
    assert (record.reward, record.success, record.termination, record.id) == (1.0, True, "user_stop", "0/1")


def test_the_users_instruction_is_kept_but_not_as_something_the_agent_saw():
    record = read("tau-bench", ROW)
    assert record.task.instruction == "For the simulated user only (the agent does not see this):\nYou are u."
    assert "You are u." not in json.dumps(list(record.messages()))
    assert record.task.success_check == {"actions": [], "outputs": []}
    assert record.task.initial_state == {"user_id": "u"}


@pytest.mark.parametrize(
    ("reward", "expected", "success"),
    [(1.0, 1.0, True), (0.0, 0.0, False), (True, 1.0, True), (0.5, 0.5, False), ("1", 1.0, True), ("x", None, None)],
)
def test_success_is_a_reward_of_one_and_unknown_without_a_reward(reward, expected, success):
    record = read("tau-bench", {**ROW, "reward": reward})
    assert (record.reward, record.success) == (expected, success)


def test_a_missing_reward_is_looked_up_in_the_reward_info_and_else_unknown():
    without = {key: value for key, value in ROW.items() if key != "reward"}
    assert read("tau-bench", without).reward == 1.0
    record = read("tau-bench", {**without, "info": {}})
    assert (record.reward, record.success) == (None, None)


@pytest.mark.parametrize(
    ("ending", "termination"),
    [
        ([{"role": "user", "content": "Thanks! ###STOP###"}], "user_stop"),
        ([{"role": "user", "content": "Thanks!"}], "unfinished"),
        ([], "unfinished"),
        (
            [
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"function": {"name": "transfer_to_human_agents", "arguments": "{}"}}],
                },
                {"role": "tool", "content": "Transfer successful"},
            ],
            "transfer_to_human_agents",
        ),
    ],
)
def test_the_ways_a_run_ends(ending, termination):
    assert read("tau-bench", {**ROW, "traj": [*CHAT, *ending]}).termination == termination


def test_a_run_that_crashed_is_kept_with_its_error():
    row = {"task_id": 3, "trial": 0, "reward": 0.0, "info": {"error": "timeout", "traceback": "…"}, "traj": []}
    record = read("tau-bench", row)
    assert (record.steps, record.termination, record.success) == ([], "error", False)
    assert record.info["error"] == "timeout"


@pytest.mark.parametrize(
    ("filename", "environment", "policy"),
    [
        ("gpt-4o-airline.json", "tau-bench/airline", "gpt-4o"),
        ("sonnet-35-new-retail.json.gz", "tau-bench/retail", "sonnet-35"),
        ("tool-calling-gpt-4o-0.0_range_0--1_user-gpt-4o-llm_0101120000.json", "tau-bench", "gpt-4o"),
        ("upload", "tau-bench", None),
    ],
)
def test_the_name_of_the_file_may_say_the_domain_and_the_model(filename, environment, policy):
    record = read("tau-bench", ROW, filename)
    assert (record.task.environment, record.policy) == (environment, policy)


def test_the_agents_policy_says_the_domain_before_the_file_does():
    record = read("tau-bench", {**ROW, "traj": [*POLICY, *CHAT]}, "gpt-4o-retail.json")
    assert (record.task.environment, record.task.key) == ("tau-bench/airline", "0")


def test_without_a_domain_the_task_is_told_apart_by_what_it_is():
    other = {**ROW, "info": {"task": {"instruction": "You are v."}}}
    keys = {read("tau-bench", row).task.key for row in (ROW, other, {**ROW, "trial": 3})}
    assert len(keys) == 2
    assert all(key.startswith("0-") for key in keys)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({**ROW, "traj": "x"}, "`traj` is a string."),
        ({"reward": 1}, "`traj` is missing."),
        (7, "The record is a number."),
    ],
)
def test_a_row_without_messages_is_refused(row, reason):
    assert refusal("tau-bench", row)[0] == reason


def test_real_results(real_file):
    rollouts = real_file("tau-bench/historical_trajectories/gpt-4o-airline.json")
    records = rollouts.records
    assert (rollouts.format, len(records), sum(len(r.steps) for r in records)) == ("tau-bench", 200, 2454)
    assert sum(r.success is True for r in records) == 84
    assert {r.task.key for r in records} == {str(n) for n in range(50)}
    assert {(r.task.environment, r.policy) for r in records} == {("tau-bench/airline", "gpt-4o")}
    assert len({r.content_hash() for r in records}) == 200
    ends = [r.termination for r in records]
    assert [ends.count(end) for end in ("user_stop", "transfer_to_human_agents", "unfinished")] == [147, 48, 5]


def test_the_chat_of_a_real_result_is_exactly_what_was_recorded(real_file, real_data):
    path = "tau-bench/historical_trajectories/gpt-4o-airline.json"
    rows = json.loads(real_data(path).read_bytes())
    for row, record in zip(rows, real_file(path).records, strict=True):
        assert list(record.messages()) == row["traj"]
