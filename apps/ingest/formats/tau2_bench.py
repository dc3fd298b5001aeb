"""tau2-bench results: one object with `simulations`, the `tasks` they attempt and `info` about agent, user and domain.

The simulated user has tools of its own. Its calls and their results (`requestor` “user”) never reach the agent, so they are
kept beside the chat, in `info`, not in a step's context. The user's scenario is kept with the task and labeled as such.
The agent's greeting, and the turns that a task begins with (`message_history`), are tau2's own and context.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.conversation import Conversation, tool_schemas
from apps.ingest.normalization.fields import (
    count,
    mapping,
    number,
    optional_list,
    required_list,
    reward_of,
    succeeded_by,
    text,
)
from apps.ingest.records import BadRow, Json, Message, Outcome, TaskRecord, TrajectoryRecord, numbered, read_each
from contract import jsontext
from contract.trajectory import FOR_SIMULATED_USER

EXPECTED = "An object with `simulations`, each with `task_id` and `messages`, and `tasks`."
GREETING = "Hi! How can I help you today?"
OF_MESSAGE = (
    "turn_idx",
    "timestamp",
    "cost",
    "usage",
    "raw_data",
    "requestor",
    "error",
    "id",
    "generation_time_seconds",
)
OF_RUN = ("trial", "seed", "agent_cost", "user_cost", "reward_info", "timestamp", "start_time", "end_time", "duration")


def _accepts(row: Json) -> bool:
    simulations = mapping(row).get("simulations")
    return type(simulations) is list and (not simulations or "messages" in mapping(simulations[0])) and "tasks" in row


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", EXPECTED)
    info = mapping(row.get("info"))
    world = mapping(info.get("environment_info"))
    tasks = {text(mapping(task).get("id")): mapping(task) for task in optional_list(row, "tasks")}
    domain = text(world.get("domain_name"))
    agent = mapping(info.get("agent_info"))
    yield from read_each(
        numbered("Simulation", required_list(row, "simulations")),
        lambda run: [_trajectory(mapping(run), tasks, domain=domain, world=world, agent=agent)],
    )


def _trajectory(
    run: dict[str, Any], tasks: dict[str, dict[str, Any]], *, domain: str, world: dict[str, Any], agent: dict[str, Any]
) -> TrajectoryRecord:
    conversation = Conversation()
    aside: list[Json] = []
    entries = required_list(run, "messages")
    has_usage = any(mapping(entry).get("usage") for entry in entries if mapping(entry).get("role") == "assistant")
    for index, entry in enumerate(entries):
        for message in _unpacked(entry):
            if _is_tau2s(message, is_first=index == 0, has_usage=has_usage):
                message = {**message, "loss": False}
            if _is_of_the_user(message):
                aside.append(message)
            if not _is_of_the_user(message) or (message.get("content") and message.get("role") == "user"):
                _add(conversation, message)
    key = text(run.get("task_id"))
    task = tasks.get(key, {})
    reward = reward_of(mapping(run.get("reward_info")).get("reward"))
    scenario = mapping(task.get("user_scenario")).get("instructions")
    return TrajectoryRecord(
        task=TaskRecord(
            key=key,
            instruction=FOR_SIMULATED_USER + text(scenario) if scenario else "",
            environment=f"tau2-bench/{domain}" if domain else "tau2-bench",
            initial_state=mapping(task.get("initial_state")),
            success_check=mapping(task.get("evaluation_criteria")),
        ),
        steps=conversation.steps,
        closing=conversation.waiting,
        tools=tool_schemas(world.get("tool_defs")),
        policy=text(agent.get("llm")) or text(agent.get("implementation")) or None,
        id=text(run.get("id")),
        outcome=Outcome(
            reward=reward,
            success=succeeded_by(reward),
            termination=text(run.get("termination_reason")),
        ),
        info={
            **{name: run[name] for name in OF_RUN if run.get(name) is not None},
            **({"of_the_user": aside} if aside else {}),
        },
    )


def _unpacked(value: Json) -> list[dict[str, Any]]:
    """The tool results in a message that bundles several; otherwise the message."""
    message = mapping(value)
    together = message.get("tool_messages")
    return [mapping(result) for result in together] if type(together) is list else [message]


def _is_of_the_user(message: dict[str, Any]) -> bool:
    """Whether a message is a call by the simulated user, or its result."""
    if message.get("role") == "tool":
        return message.get("requestor") == "user"
    return message.get("role") == "user" and bool(message.get("tool_calls"))


def _is_tau2s(message: dict[str, Any], *, is_first: bool, has_usage: bool) -> bool:
    """Whether no model wrote an agent's message. `has_usage`: the agent's messages report usage, so one that doesn't wasn't generated."""
    if message.get("role") != "assistant" or message.get("usage"):
        return False
    return has_usage or (is_first and message.get("content") == GREETING)


def _add(conversation: Conversation, entry: dict[str, Any]) -> None:
    message: Message = {key: value for key, value in entry.items() if key not in OF_MESSAGE and value is not None}
    if entry.get("role") == "user":
        message.pop("tool_calls", None)
    reply = mapping(entry.get("raw_data"))
    choices = reply.get("choices")
    reply = mapping(choices[0]) if type(choices) is list and choices else reply
    if entry.get("role") == "assistant" and (thought := mapping(reply.get("message")).get("reasoning_content")):
        message.setdefault("reasoning_content", thought)
    if entry.get("role") == "tool":
        message |= {"tool_call_id": entry.get("id"), "is_error": bool(entry.get("error"))}
    step = conversation.add(message)
    if step is None:
        return
    usage = mapping(entry.get("usage"))
    step.prompt_tokens, step.completion_tokens = (
        count(usage.get("prompt_tokens")),
        count(usage.get("completion_tokens")),
    )
    step.seconds = number(entry.get("generation_time_seconds"))
    if entry.get("cost") is not None:
        step.info["cost"] = entry["cost"]


FORMAT = Format(
    name="tau2-bench",
    title="tau2-bench results",
    shape="an object with `simulations`, `tasks` and `info`",
    keys=("simulations tasks",),
    accepts=_accepts,
    read=_read,
)
