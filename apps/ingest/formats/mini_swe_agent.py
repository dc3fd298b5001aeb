"""mini-swe-agent trajectories: a chat with the whole API response beside each answer, and a last message of role `exit`.

Version 1.0 writes commands as fenced bash blocks, 1.1 calls a tool. Whether the patch works is in another file (the
evaluation report), so success stays unknown unless a derived data set gives it in a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from apps.ingest.formats import Format
from apps.ingest.normalization.columns import NAME, POLICY, TERMINATION, Columns, named, nonempty_text, succeeded
from apps.ingest.normalization.conversation import Conversation, tool_schemas
from apps.ingest.normalization.fields import (
    count,
    first_of,
    mapping,
    number,
    prompt_key,
    prompt_of,
    required_list,
    text,
)
from apps.ingest.normalization.roles import role_of
from apps.ingest.normalization.swe_bench import instance_environment, issue_of
from apps.ingest.records import BadRow, Json, Outcome, StepRecord, TaskRecord, TrajectoryRecord, text_of
from contract import jsontext

_BASH_BLOCK = re.compile(r"```(?:bash|sh|mswea_bash_command)\s*\n")


def _accepts(row: Json) -> bool:
    if type(row) is not dict or type(row.get("messages")) is not list:
        return False
    return text(row.get("trajectory_format")).startswith("mini-swe-agent") or "mini_version" in mapping(row.get("info"))


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(
            f"The record is {jsontext.describe(row)}.", "An object with `info`, `messages` and `trajectory_format`."
        )
    info = mapping(row.get("info"))
    config = mapping(info.get("config"))
    conversation = Conversation()
    clock: float | None = None
    for message in required_list(row, "messages"):
        if mapping(message).get("role") == "exit":
            info = {**mapping(message.get("extra")), **info}
            continue
        clock = _add(conversation, message, clock)
    instance = text(row.get("instance_id")) or text(mapping(info.get("config")).get("instance_id"))
    model = text(mapping(config.get("model")).get("model_name"))
    columns = Columns(row, ("info", "messages", "trajectory_format", "instance_id"))
    yield TrajectoryRecord(
        task=TaskRecord(
            key=instance or prompt_key(conversation.opening),
            instruction=issue_of(prompt_of(conversation.opening)),
            environment=instance_environment(instance),
        ),
        steps=conversation.steps,
        closing=conversation.waiting,
        tools=tool_schemas(mapping(config.get("model")).get("tools")),
        policy=model or columns.take(nonempty_text, POLICY),
        id=columns.take(named, NAME) or instance,
        outcome=Outcome(
            reward=columns.take_rewards(conversation.steps),
            success=succeeded(row, columns),
            termination=text(info.get("exit_status")) or columns.take(nonempty_text, TERMINATION) or "",
        ),
        info={
            **columns.rest(),
            **{key: value for key, value in info.items() if key != "exit_status" and value not in ("", None)},
        },
    )


def _add(conversation: Conversation, message: Json, clock: float | None) -> float | None:
    """Take one message; returns its timestamp, for the duration of the next step."""
    extra = mapping(mapping(message).get("extra"))
    if extra:
        message = {key: value for key, value in message.items() if key != "extra"}
    step = _answer(conversation, message) if mapping(message).get("object") == "response" else conversation.add(message)
    time = number(extra.get("timestamp"))
    if step is None:
        if extra.get("exception_info") and conversation.waiting:
            conversation.waiting[-1]["is_error"] = True
        return time or clock
    _describe(step, extra, mapping(first_of(mapping(extra.get("response")), "usage") or mapping(message).get("usage")))
    response = mapping(extra.get("response"))
    start = clock or number(response.get("created"))
    if time and start and time >= start:
        step.seconds = round(time - start, 3)
    return time or clock


def _answer(conversation: Conversation, response: dict[str, Json]) -> StepRecord | None:
    """Add a response of OpenAI's Responses API, which is stored whole in place of a message. Returns its step."""
    steps_before = len(conversation.steps)
    for item in required_list(response, "output"):
        if role_of(item):
            conversation.add(item)
    return conversation.steps[-1] if len(conversation.steps) > steps_before else None


def _describe(step: StepRecord, extra: dict[str, Json], usage: dict[str, Json]) -> None:
    step.prompt_tokens = count(first_of(usage, "prompt_tokens", "input_tokens"))
    step.completion_tokens = count(first_of(usage, "completion_tokens", "output_tokens"))
    step.info.pop("provider_specific_fields", None)  # repeats reasoning_content
    if extra.get("cost") is not None:
        step.info["cost"] = extra["cost"]
    if not step.message.get("tool_calls") and (action := _command_in(text_of(step.message.get("content")))):
        step.info["action"] = action


def _command_in(message: str) -> str:
    """The content of the first shell code block; "" if there is none. Its end is searched for separately: there may be many blank lines."""
    begin = _BASH_BLOCK.search(message)
    end = message.find("\n```", begin.end() - 1) if begin else -1
    return message[begin.end() : end] if begin and end >= 0 else ""


FORMAT = Format(
    name="mini-swe-agent",
    title="mini-swe-agent .traj.json",
    shape="`trajectory_format`, `info` with `exit_status`, and `messages`",
    keys=("messages trajectory_format", "messages info.mini_version"),
    accepts=_accepts,
    read=_read,
)
