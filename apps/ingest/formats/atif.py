"""ATIF, the Agent Trajectory Interchange Format (Harbor), versions 1.0 to 1.7.

A step carries the observation from its own tool calls; here that opens the next step's context. Two kinds of agent steps are
not what the policy produced in this trajectory, and become context: copies from an earlier run (`is_copied_context`) and calls made by a
program (`llm_call_count` 0). ATIF has no task and no reward: equal prompts are the same task, and the outcome stays unknown.
Embedded sub-agents become trajectories of their own, whose tasks are parts of the run's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.conversation import Conversation, tool_schemas
from apps.ingest.normalization.fields import count, first_of, mapping, optional_list, required_list, text
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord, numbered, read_each
from contract import jsontext

EXPECTED = "An object with `schema_version` “ATIF-v1.…”, `agent` and `steps`."
SOURCES = {"system": "system", "user": "user", "agent": "assistant"}
OF_STEP = ("timestamp", "model_name", "reasoning_effort", "extra")
OF_RUN = ("schema_version", "agent", "notes", "final_metrics", "continued_trajectory_ref", "extra")
OF_METRICS = ("cached_tokens", "cost_usd", "completion_token_ids", "logprobs")


def _is_run(row: Json) -> bool:
    return text(mapping(row).get("schema_version")).startswith("ATIF-") and type(row.get("steps")) is list


def _accepts(row: Json) -> bool:
    return _is_run(row) or (bool(mapping(row)) and all(map(_is_run, row.values())))


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", EXPECTED)
    if "steps" not in row and row and all(map(_is_run, row.values())):
        yield from read_each(((f"Run {name[:40]}", run) for name, run in row.items()), _trajectories)
        return
    yield from _trajectories(row)


def _trajectories(row: dict[str, Json], whole: TrajectoryRecord | None = None) -> Iterator[TrajectoryRecord]:
    """The run, followed by those of its sub-agents."""
    conversation = Conversation()
    for entry in required_list(row, "steps"):
        _add(conversation, entry)
    agent = mapping(row.get("agent"))
    record = conversation.trajectory(
        tools=tool_schemas(agent.get("tool_definitions")),
        policy=text(first_of(agent, "model_name", "name")),
        id=text(first_of(row, "trajectory_id", "session_id")),
        info={key: row[key] for key in OF_RUN if row.get(key) not in (None, "", {})},
    )
    record.whole = whole
    yield record
    sub_agents = numbered("Sub-agent", optional_list(row, "subagent_trajectories"))
    yield from read_each(sub_agents, lambda inner: _trajectories(mapping(inner), whole or record))


def _add(conversation: Conversation, entry: Json) -> None:
    if type(entry) is not dict:
        raise BadRow(f"A step is {jsontext.describe(entry)}.", "Each step is an object with `source` and `message`.")
    role = SOURCES.get(text(entry.get("source")))
    if role is None:
        raise BadRow(f"A step's `source` is “{text(entry.get('source'))[:60]}”.", "system, user or agent.")
    if role == "assistant" and (entry.get("is_copied_context") or entry.get("llm_call_count") == 0):
        conversation.waiting += _not_the_policys(entry)
        return
    step = conversation.add(_message(role, entry))
    for answer in _answers(entry):
        conversation.add(answer)
    if step is None:
        return
    metrics = mapping(first_of(entry, "metrics", "usage"))
    step.prompt_tokens = count(metrics.get("prompt_tokens"))
    step.completion_tokens = count(metrics.get("completion_tokens"))
    step.info |= {key: entry[key] for key in OF_STEP if entry.get(key) is not None}
    step.info |= {key: metrics[key] for key in OF_METRICS if metrics.get(key) is not None}
    if references := [
        reference for result in _results(entry) for reference in optional_list(result, "subagent_trajectory_ref")
    ]:
        step.info["subagent_trajectory_ref"] = references


def _not_the_policys(entry: dict[str, Any]) -> list[Message]:
    """An agent step as context: its marked message and its results."""
    aside = Conversation()
    for message in (_message("assistant", entry), *_answers(entry)):
        aside.add(message)
    mark = "is_copied_context" if entry.get("is_copied_context") else "is_dispatched"
    return [{**aside.steps[0].message, mark: True}, *aside.waiting]


def _message(role: str, entry: dict[str, Any]) -> Message:
    message: Message = {"role": role, "content": entry.get("message")}
    if role != "assistant":
        return message
    if entry.get("reasoning_content"):
        message["reasoning_content"] = entry["reasoning_content"]
    if calls := optional_list(entry, "tool_calls"):
        message["tool_calls"] = [
            {
                "id": mapping(call).get("tool_call_id"),
                "function": {"name": mapping(call).get("function_name"), "arguments": mapping(call).get("arguments")},
            }
            for call in calls
        ]
    return message


def _answers(entry: dict[str, Any]) -> list[Message]:
    """The results: tool results if tools were called, otherwise messages from the user or the terminal."""
    called = bool(entry.get("tool_calls"))
    answers: list[Message] = []
    for result in _results(entry):
        if called:
            answers.append(
                {"role": "tool", "tool_call_id": result.get("source_call_id"), "content": result.get("content")}
            )
        elif result.get("content"):
            answers.append({"role": "user", "content": result["content"]})
    return answers


def _results(entry: dict[str, Any]) -> list[dict[str, Any]]:
    return [mapping(result) for result in optional_list(mapping(entry.get("observation")), "results")]


FORMAT = Format(
    name="atif",
    title="ATIF (Agent Trajectory Interchange Format)",
    shape="`schema_version` “ATIF-v1.…”, `agent` and `steps` with `source` and `message`",
    keys=("schema_version steps", "*.schema_version *.steps"),
    accepts=_accepts,
    read=_read,
)
