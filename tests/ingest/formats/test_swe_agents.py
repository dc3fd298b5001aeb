"""SWE-agent's .traj and mini-swe-agent's .traj.json: the agent's messages, its context, and its outcome."""

import json
import time

import pytest

from apps.trajectories.outlines import outline
from tests.ingest.formats.examples import EXAMPLES
from tests.ingest.formats.parts import CHAT
from tests.ingest.formats.rows import read, refusal

SWE, MINI = EXAMPLES["swe-agent"], EXAMPLES["mini-swe-agent"]


def test_history_decides_the_steps_and_trajectory_adds_to_them():
    record = read("swe-agent", SWE)
    assert [step.message["content"] for step in record.steps] == ["I look.", "Done."]
    assert record.steps[0].seconds == 0.5
    assert record.steps[0].info == {"action": "ls", "state": {}}
    assert (record.task.key, record.task.environment, record.policy) == ("owner__repo-1", "swe-bench", "gpt")
    assert (record.task.instruction, record.termination, record.success) == ("it breaks", "submitted", None)
    assert record.closing == [{"role": "user", "content": "diff"}]


def test_demonstrations_are_context_whatever_their_role():
    history = [
        SWE["history"][0],
        {"role": "user", "content": "shown", "is_demo": True, "agent": "main"},
        {"role": "assistant", "content": "shown too", "is_demo": True, "agent": "main"},
        *SWE["history"][2:],
    ]
    record = read("swe-agent", {**SWE, "history": history})
    assert len(record.steps) == 2
    shown = [m for m in record.steps[0].context if m.get("is_demo")]
    assert [(m["role"], m["content"]) for m in shown] == [("user", "shown"), ("assistant", "shown too")]


@pytest.mark.parametrize("wrong", [{"role": 5}, {"content": {"a": 1}}])
def test_a_demonstration_that_is_no_message_is_refused(wrong: dict[str, object]):
    """It would be stored, and then refused by everything that reads trajectories."""
    shown = {"role": "user", "content": "shown", "is_demo": True, "agent": "main", **wrong}
    reason, _ = refusal("swe-agent", {**SWE, "history": [SWE["history"][0], shown, *SWE["history"][1:]]})
    assert reason.startswith("A message of the history has")


def test_bookkeeping_of_the_agent_is_not_part_of_what_was_said():
    record = read("swe-agent", SWE)
    assert all(
        set(message) <= {"role", "content", "is_demo", "tool_calls", "tool_call_id"} for message in record.messages()
    )


def test_a_history_alone_is_enough():
    record = read("swe-agent", {"history": SWE["history"]}, "owner__repo-7.traj")
    assert (len(record.steps), record.closing, record.task.key) == (2, [], "owner__repo-7")


def test_runs_in_one_file_without_instances_are_not_one_task_named_after_it():
    def run(issue: str) -> str:
        history = [{"role": "user", "content": issue, "agent": "main"}, *SWE["history"][-2:]]
        return read("swe-agent", {"history": history}, "trajectories.jsonl").task.key

    assert run("It breaks.") != run("It hangs.")


def test_thinking_blocks_are_reasoning():
    blocks = [{"type": "thinking", "thinking": "Where?"}, {"type": "redacted_thinking", "data": "x"}]
    history = [
        {**entry, "thinking_blocks": blocks} if entry["role"] == "assistant" else entry for entry in SWE["history"]
    ]
    record = read("swe-agent", {"history": history}, "owner__repo-7.traj")
    assert [step.message["reasoning_content"] for step in record.steps] == ["Where?", "Where?"]


def test_a_trajectory_alone_is_enough():
    query = [{"role": "system", "content": "S"}, {"role": "user", "content": "ISSUE:\nx\nINSTRUCTIONS:\ny"}]
    moves = [{**SWE["trajectory"][0], "query": query}, SWE["trajectory"][1]]
    record = read("swe-agent", {"trajectory": moves, "info": {}})
    assert [step.message["content"] for step in record.steps] == ["I look.", "Done."]
    assert record.steps[0].context == query
    assert record.steps[1].context == [{"role": "user", "content": "README.md"}]


def test_an_action_that_the_history_lacks_is_still_a_step():
    record = read("swe-agent", {**SWE, "history": SWE["history"][:-1]})
    assert [step.message["content"] for step in record.steps] == ["I look.", "Done."]
    assert record.steps[1].info["action"] == "submit"


def test_a_move_in_the_middle_that_the_history_lacks_is_a_step_with_what_it_brought_back():
    extra = {"action": "cat x", "observation": "no such file", "response": "I read.", "state": {}}
    moves = [SWE["trajectory"][0], extra, SWE["trajectory"][1]]
    record = read("swe-agent", {**SWE, "trajectory": moves})
    assert [step.message["content"] for step in record.steps] == ["I look.", "I read.", "Done."]
    assert [[m["content"] for m in step.context] for step in record.steps[1:]] == [
        ["README.md\n(cwd)"],
        ["no such file"],
    ]
    assert [step.info["action"] for step in record.steps] == ["ls", "cat x", "submit"]


def test_a_history_that_was_edited_keeps_its_moves_in_order():
    edited = {**SWE["history"][3], "content": "I look around.", "action": "ls -a"}
    record = read("swe-agent", {**SWE, "history": [*SWE["history"][:3], edited, *SWE["history"][4:]]})
    assert [step.message["content"] for step in record.steps] == ["I look around.", "Done."]
    assert [step.seconds for step in record.steps] == [0.5, None]


def test_repeated_prompts_are_left_out():
    moves = [{**move, "messages": SWE["history"]} for move in SWE["trajectory"]]
    assert read("swe-agent", {**SWE, "trajectory": moves}).to_json() == read("swe-agent", SWE).to_json()


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"history": [], "trajectory": []}, "Neither `history` nor `trajectory` holds anything."),
        ({"history": ["x"]}, "An entry of `history` is a string."),
        ({"history": 7}, "`history` is a number."),
        ("x", "The record is a string."),
    ],
)
def test_a_traj_without_a_chat_is_refused(row, reason):
    assert refusal("swe-agent", row)[0] == reason


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("demonstrations/ctf/web/i_got_id_demo.traj", 21),
        ("demonstrations/function_calling_simple.traj", 5),
        ("pr-commit0/97af1e.traj", 2),
        (
            "test_data/gpt4__swe-agent-test-repo__default_from_url__t-0.00__p-0.95__c-3.00__install-1/6e44b9__sweagenttestrepo-1c2844.traj",
            5,
        ),
        (
            "demonstrations/replay__marshmallow-code__marshmallow-1867__function_calling_replace_from_source/marshmallow-code__marshmallow-1867.traj",
            13,
        ),
    ],
)
def test_real_trajs(real_file, path, steps):
    records = real_file(f"swe-agent-demos/{path}")
    assert (records.format, records.rejected) == ("swe-agent", [])
    (record,) = records.records
    assert len(record.steps) == steps
    assert {line.kind for line in outline(record)} == {"tool"}


def test_all_real_trajs_together(real_data, real_file):
    folder = real_data("swe-agent-demos")
    steps = [
        len(record.steps)
        for path in folder.glob("**/*.traj")
        for record in real_file(f"swe-agent-demos/{path.relative_to(folder)}").records
    ]
    assert (len(steps), sum(steps), min(steps), max(steps)) == (23, 234, 2, 21)


def test_the_variants_of_one_real_task_meet_in_one_task(real_data, real_file):
    folder = real_data("swe-agent-demos/demonstrations")
    paths = sorted(folder.glob("replay__*/*.traj"))
    keys = {
        real_file(f"swe-agent-demos/demonstrations/{path.relative_to(folder)}").records[0].task.key for path in paths
    }
    assert len(paths) == 8
    assert keys == {"marshmallow-code__marshmallow-1867"}


def test_mini_swe_agent_leaves_out_the_raw_responses_and_the_exit():
    record = read("mini-swe-agent", MINI)
    assert list(record.messages()) == [CHAT[0], {"role": "user", "content": "List the files."}, CHAT[2], CHAT[3]]
    (step,) = record.steps
    assert (step.seconds, step.completion_tokens, step.info) == (2.0, 3, {"cost": 0.1})
    assert (record.termination, record.policy, record.success) == ("Submitted", "m", None)
    assert (record.task.key, record.task.environment) == ("owner__repo-1", "swe-bench")
    assert "response" not in json.dumps(record.to_json())


def test_answers_stored_as_responses_are_read():
    calls = [
        {"type": "function_call", "call_id": name, "name": "bash", "arguments": '{"command":"ls"}'}
        for name in ("c1", "c2")
    ]
    results = [{"type": "function_call_output", "call_id": name, "output": name, "extra": {}} for name in ("c1", "c2")]
    response = {"object": "response", "output": [{"type": "reasoning", "summary": []}, *calls], "extra": {}}
    usage = {"input_tokens": 9, "output_tokens": 3}
    record = read("mini-swe-agent", {**MINI, "messages": [*CHAT[:2], {**response, "usage": usage}, *results]})
    [step] = record.steps
    assert [call["id"] for call in step.message["tool_calls"]] == ["c1", "c2"]
    assert (step.prompt_tokens, step.completion_tokens) == (9, 3)
    assert record.closing == [{"role": "tool", "tool_call_id": name, "content": name} for name in ("c1", "c2")]


def test_a_run_that_timed_out_before_its_first_step_is_kept():
    exit_message = {"role": "exit", "content": "x", "extra": {"exit_status": "Timeout", "traceback": "Traceback …"}}
    record = read("mini-swe-agent", {**MINI, "info": {"mini_version": "2"}, "messages": [*CHAT[:2], exit_message]})
    assert (record.steps, record.termination, record.info["traceback"]) == ([], "Timeout", "Traceback …")


def test_an_answer_of_blank_lines_is_read_in_no_time():
    """A pattern with two gaps once took a minute for 100,000 of them, and four times as long with each doubling."""
    message = {"role": "assistant", "content": "```bash" + "\n" * 200_000}
    before = time.process_time()
    (step,) = read("mini-swe-agent", {**MINI, "messages": [*CHAT[:2], message]}).steps
    assert (step.message["content"], "action" in step.info) == (message["content"], False)
    assert time.process_time() - before < 5


def test_commands_in_fenced_blocks_are_the_actions_of_version_one():
    message = {"role": "assistant", "content": "THOUGHT: look\n\n```bash\nls -la src\n```"}
    record = read(
        "mini-swe-agent",
        {**MINI, "messages": [*CHAT[:2], message, {"role": "user", "content": "<returncode>1</returncode>"}]},
    )
    (line,) = outline(record)
    assert (line.kind, line.tool, line.headline, line.is_error) == ("tool", "ls", "-la src", True)


@pytest.mark.parametrize("name", ["swe-agent", "mini-swe-agent"])
def test_what_a_data_set_says_beside_a_run_counts(name):
    info = {"mini_version": "2"} if name == "mini-swe-agent" else {}
    beside = {"resolved": False, "reward": 0.25, "model": "own"}
    record = read(name, {**EXAMPLES[name], "info": info, "replay_config": None, **beside})
    assert (record.success, record.reward, record.policy) == (False, 0.25, "own")


def test_real_runs_of_mini_swe_agent(real_data, real_file):
    folder = real_data("mini-swe-agent")
    records = [
        record
        for path in sorted(folder.glob("deepseek_*/*/*.traj.json*"))
        for record in real_file(f"mini-swe-agent/{path.relative_to(folder)}").records
    ]
    assert len(records) == 20
    assert sum(len(record.steps) for record in records) == 1294
    assert sorted({len(record.steps) for record in records})[:1] == [0]
    assert {record.termination for record in records} == {"Submitted", "Timeout", "InternalServerError"}
    assert len({record.task.key for record in records}) == 5
    assert all(step.completion_tokens for record in records for step in record.steps)
