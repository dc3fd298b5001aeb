"""A policy behind HTTP, on a server that may misbehave."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.events import Failed
from tests.trainer.rollouts.openai_like import Server, completion, looks_up_then_stops, server_run, trajectories
from tests.trainer.runs import events_of, run_here
from trainer.failures import ExitCode
from trainer.rollouts import server as server_module


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(server_module, "FIRST_WAIT_SECONDS", 0.001)
    with Server() as running:
        yield running


def test_the_protocol_is_spoken_and_the_answer_is_kept(tmp_path: Path, server: Server):
    assert run_here(tmp_path, server_run(server)) == ExitCode.FINISHED
    first = trajectories(tmp_path)[0]
    assert first.policy == "m"
    assert first.steps[0].message["tool_calls"][0]["function"]["arguments"] == {"name": "Nobody"}
    assert first.steps[0].error == "nobody here is called 'Nobody'"
    assert (first.steps[0].prompt_tokens, first.steps[0].completion_tokens) == (100, 2)
    assert first.steps[0].info["logprobs"] == [-0.25, -1.0]
    assert first.steps[1].message == {"role": "assistant", "content": "Done.", "reasoning_content": "Enough."}
    assert first.outcome.termination == "done"
    sent = server.requests[0]
    assert (sent["path"], sent["model"], sent["temperature"], sent["max_tokens"]) == (
        "/v1/chat/completions",
        "m",
        0.5,
        64,
    )
    assert {tool["function"]["name"] for tool in sent["tools"]} >= {"find_contact", "send_file"}
    second = next(request for request in server.requests if len(request["messages"]) > 2)
    assert second["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"name": "Nobody"}'
    assert second["messages"][3]["tool_call_id"] == "abc"


def test_a_server_that_stumbles_is_asked_again(tmp_path: Path, server: Server):
    failures = iter([500, 429, 503])
    server.reply = lambda body: (next(failures, 200), looks_up_then_stops(body))
    assert run_here(tmp_path, server_run(server)) == ExitCode.FINISHED
    assert {trajectory.outcome.termination for trajectory in trajectories(tmp_path)} == {"done"}


@pytest.mark.parametrize("answer", [(400, {"error": "too long"}), (200, b"<html>"), (200, {"choices": []})])
def test_a_chat_that_is_refused_ends_its_episode_and_is_kept(tmp_path: Path, server: Server, answer: Any):
    server.reply = lambda body: answer
    assert run_here(tmp_path, server_run(server)) == ExitCode.FINISHED
    rollouts = trajectories(tmp_path)
    assert [rollout.outcome.termination for rollout in rollouts] == ["policy_error"] * 3
    assert "the server" in rollouts[0].info["policy_error"]


def calling(**call: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": 5},
        {"role": "assistant", "content": "", "reasoning_content": {"because": 1}},
        {"role": "assistant", "content": None, "tool_calls": "find_contact"},
        {"role": "assistant", "content": None, "tool_calls": ["find_contact"]},
        calling(id="a", function={"name": 7, "arguments": "{}"}),
    ],
)
def test_an_answer_that_is_no_message_ends_its_own_episode_and_no_other(
    tmp_path: Path, server: Server, message: dict[str, Any]
):
    replies = iter([completion(message)])
    server.reply = lambda body: (200, next(replies, None) or looks_up_then_stops(body))
    assert run_here(tmp_path, server_run(server)) == ExitCode.FINISHED
    assert sorted(trajectory.outcome.termination for trajectory in trajectories(tmp_path)) == [
        "done",
        "done",
        "policy_error",
    ]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "half of a character: \ud83d"},
        calling(id=3, function={"name": None, "arguments": None}),
        calling(id="a", function={"name": "find_contact", "arguments": "[" * 3000}),
        calling(id="a", function={"name": "find_contact", "arguments": json.dumps({"name": "\ud83d"})}),
    ],
)
def test_an_odd_message_is_kept_and_the_episode_goes_on(tmp_path: Path, server: Server, message: dict[str, Any]):
    server.reply = lambda body: (200, completion(message) if len(body["messages"]) < 3 else looks_up_then_stops(body))
    assert run_here(tmp_path, server_run(server)) == ExitCode.FINISHED
    assert {trajectory.outcome.termination for trajectory in trajectories(tmp_path)} == {"done"}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "it has no such path or model (404)"),
        (401, "it refuses the key, or requires one (401)"),
        (503, "gave no answer in 6 tries: it failed (503)"),
    ],
)
def test_what_no_chat_gets_past_fails_the_run(tmp_path: Path, server: Server, status: int, message: str):
    server.reply = lambda body: (status, {"error": "no"})
    assert run_here(tmp_path, server_run(server)) == ExitCode.CONFIG
    last = events_of(tmp_path)[-1].event
    assert isinstance(last, Failed)
    assert message in last.message


def test_a_server_that_is_not_there_is_named(tmp_path: Path, server: Server):
    server.http.shutdown()
    server.http.server_close()
    assert run_here(tmp_path, server_run(server)) == ExitCode.CONFIG
    last = events_of(tmp_path)[-1].event
    assert isinstance(last, Failed)
    assert "ConnectError" in last.message
    assert "what has been rolled out is kept" in last.advice


def test_the_key_comes_from_the_environment_and_must_be_there(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
):
    config = server_run(server, api_key_variable="RETRACE_TEST_KEY")
    monkeypatch.setenv("ENDPOINT_KEYS", f"RETRACE_TEST_KEY={server.url}")
    assert run_here(tmp_path, config) == ExitCode.CONFIG
    monkeypatch.setenv("RETRACE_TEST_KEY", "secret")
    assert run_here(tmp_path, config) == ExitCode.FINISHED
    assert set(server.keys) == {"Bearer secret"}
    assert "secret" not in (tmp_path / "events.jsonl").read_text()
    monkeypatch.setenv("ENDPOINT_KEYS", "RETRACE_TEST_KEY=http://127.0.0.1:9")
    server.keys.clear()
    assert run_here(tmp_path, config) == ExitCode.CONFIG
    assert server.keys == []


def test_arguments_that_are_no_json_go_to_the_environment_as_they_are(tmp_path: Path, server: Server):
    function = {"name": "find_contact", "arguments": "{name: Ana}"}
    call = {"id": "abc", "type": "function", "function": function}
    reply = completion({"role": "assistant", "content": "", "tool_calls": [call]})
    server.reply = lambda body: (200, reply if len(body["messages"]) < 3 else looks_up_then_stops(body))
    assert run_here(tmp_path, server_run(server)) == ExitCode.FINISHED
    assert trajectories(tmp_path)[0].steps[0].error == "the arguments are no JSON: {name: Ana}"


def test_a_server_without_tool_calling_is_spoken_to_in_plain_text(tmp_path: Path, server: Server):
    first = {"role": "assistant", "content": 'Thought: Who?\nAction: find_contact\nAction Input: {"name": "Nobody"}'}
    last = {"role": "assistant", "content": "Final Answer: There is nobody."}
    server.reply = lambda body: (200, completion(first if len(body["messages"]) < 3 else last))
    assert run_here(tmp_path, server_run(server, tool_calls="react", token_ids=True)) == ExitCode.FINISHED
    rollout = trajectories(tmp_path)[0]
    assert rollout.steps[0].error == "nobody here is called 'Nobody'"
    assert rollout.steps[0].info["logprobs"] == [-0.25, -1.0]
    assert rollout.steps[1].message == {"role": "assistant", "content": "There is nobody."}
    assert rollout.outcome.termination == "done"
    second = next(request for request in server.requests if len(request["messages"]) > 2)
    assert (second["stop"], second["return_token_ids"], "tools" in second) == (["\nObservation:"], True, False)
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "user"]
    assert "- find_contact(name: string, team?: string): List the colleagues" in second["messages"][0]["content"]
    assert second["messages"][3]["content"].startswith("Observation: {")


@pytest.mark.parametrize("status", [400, 500])
def test_ids_of_calls_are_short_where_the_server_refuses_others(tmp_path: Path, server: Server, status: int):
    """Mistral's template refuses other ids, whatever the server."""
    error = "Tool call IDs should be alphanumeric strings with length 9!"

    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        call_ids = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or []]
        return (
            (status, {"error": error})
            if any(len(call_id) != 9 for call_id in call_ids)
            else (200, looks_up_then_stops(body))
        )

    server.reply = reply
    assert run_here(tmp_path, server_run(server)) == ExitCode.FINISHED
    assert {trajectory.outcome.termination for trajectory in trajectories(tmp_path)} == {"done"}
    last = server.requests[-1]["messages"]
    assert last[2]["tool_calls"][0]["id"] == last[3]["tool_call_id"] == "000000001"
    refused = [request for request in server.requests if "abc" in json.dumps(request["messages"])]
    assert 1 <= len(refused) <= 2, "once it is known, only chats that are under way are sent with other ids"
