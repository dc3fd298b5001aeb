"""SWE-agent `.traj`, 0.x and 1.x.

`history` is the chat; `trajectory` adds each action's parsed form, duration, and shell state, and actions missing from the history. Demonstrations
(`is_demo`, whatever their role) were shown to the agent and are context. Some files have only a history, some histories lack the last action,
and `trajectory[].messages` in 1.x, which repeats the whole prompt in every step, is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.columns import POLICY, REWARD, Columns, nonempty_text, succeeded
from apps.ingest.normalization.conversation import Conversation
from apps.ingest.normalization.fields import (
    flag,
    mapping,
    number,
    optional_list,
    prompt_key,
    prompt_of,
    reward_of,
    text,
)
from apps.ingest.normalization.parts import reasoning_of
from apps.ingest.normalization.swe_bench import instance_environment, issue_of
from apps.ingest.records import BadRow, Json, Message, Outcome, StepRecord, TaskRecord, TrajectoryRecord, text_of
from contract import jsontext
from contract.messages import checked

BOOKKEEPING = frozenset(
    {"agent", "message_type", "thought", "action", "is_demo", "tags", "cache_control", "thinking_blocks"}
)
_EXTENSIONS = re.compile(r"(?:\.traj|\.json|\.jsonl|\.gz|\.zst)+$")
_NAMELESS = frozenset({"", "traj", "trajectory", "output", "result", "results"})


def _accepts(row: Json) -> bool:
    if type(row) is not dict:
        return False
    trajectory, history = row.get("trajectory"), row.get("history")
    if type(trajectory) is list and trajectory:
        first = mapping(trajectory[0])
        return "action" in first and ("response" in first or (type(history) is list and "observation" in first))
    if type(history) is not list or not history:
        return type(trajectory) is list and "environment" in row and "info" in row
    first = mapping(history[0])
    return "role" in first and ("agent" in first or "message_type" in first or "trajectory" in row)


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", "An object with `history` and `trajectory`.")
    entries = [mapping(entry) for entry in optional_list(row, "trajectory")]
    history = optional_list(row, "history") or _history_of(entries)
    if not history and not entries:
        raise BadRow(
            "Neither `history` nor `trajectory` holds anything.",
            "`history` is a list of messages with `role` and `content`.",
        )
    conversation = Conversation()
    for message in history:
        _add(conversation, message)
    if entries:
        _join(conversation, entries)
    info = mapping(row.get("info"))
    config = _config(row.get("replay_config"))
    problem = mapping(config.get("problem_statement"))
    opening = [m for m in conversation.opening if not m.get("is_demo")]
    instance = text(problem.get("id")) or text(row.get("instance_id")) or _stem(filename)
    model = mapping(mapping(config.get("agent")).get("model"))
    columns, solved = Columns(row), flag(info.get("resolved"))
    yield TrajectoryRecord(
        task=TaskRecord(
            key=instance or prompt_key(opening),
            instruction=text(problem.get("text")) or issue_of(prompt_of(opening)),
            environment=instance_environment(instance),
        ),
        steps=conversation.steps,
        closing=conversation.waiting,
        policy=text(model.get("name") or model.get("model_name")) or columns.take(nonempty_text, POLICY),
        id=instance,
        outcome=Outcome(
            reward=reward_of(info.get("reward")) if info.get("reward") is not None else columns.take(reward_of, REWARD),
            success=succeeded(row, columns) if solved is None else solved,
            termination=text(info.get("exit_status")),
        ),
        info={
            **{key: value for key, value in info.items() if key not in ("exit_status", "reward", "resolved")},
            **({"environment": row["environment"]} if row.get("environment") else {}),
        },
    )


def _add(conversation: Conversation, entry: Json) -> None:
    if type(entry) is not dict:
        raise BadRow(
            f"An entry of `history` is {jsontext.describe(entry)}.",
            "Each entry is an object with `role` and `content`.",
        )
    message = {key: value for key, value in entry.items() if key not in BOOKKEEPING and value is not None}
    thoughts = map(reasoning_of, optional_list(entry, "thinking_blocks"))
    if reasoning := "\n\n".join(filter(None, thoughts)):
        message.setdefault("reasoning_content", reasoning)
    if entry.get("is_demo"):
        shown = {"role": message.get("role", "user"), "content": message.get("content", ""), "is_demo": True}
        conversation.waiting.append(checked(shown, "the history"))
        return
    step = conversation.add(message)
    if step is not None:
        step.info.pop("tool_call_ids", None)
        if type(entry.get("action")) is str:
            step.info["action"] = entry["action"]


def _join(conversation: Conversation, entries: list[dict[str, Any]]) -> None:
    """Add to each step the data of its move in `trajectory`, and add the moves that the history lacks: they were made, too."""
    steps, conversation.steps = conversation.steps, []
    ending, conversation.waiting = conversation.waiting, []
    position = 0
    for index, step in enumerate(steps):
        surplus = max(0, len(entries) - position - (len(steps) - index))
        ahead = range(position, min(position + surplus + 1, len(entries)))
        # Edited histories differ slightly from their moves; with no surplus moves left, the next move is taken.
        match = next((at for at in ahead if _is_entry_of(step, entries[at])), position if surplus == 0 else None)
        conversation.waiting += step.context
        if match is not None and match < len(entries):
            for entry in entries[position:match]:
                _make(conversation, entry)
            _describe(step, entries[match])
            position = match + 1
        step.context, conversation.waiting = conversation.waiting, []
        conversation.steps.append(step)
    conversation.waiting = ending
    if position and not ending:
        _add_observation(conversation, entries[position - 1])
    for entry in entries[position:]:
        _make(conversation, entry)


def _is_entry_of(step: StepRecord, entry: dict[str, Any]) -> bool:
    content = text_of(step.message.get("content"))
    action = step.info.get("action")
    return content == text(entry.get("response")) or (bool(action) and action == entry.get("action"))


def _make(conversation: Conversation, entry: dict[str, Any]) -> None:
    """A step from a move alone, with its observation."""
    conversation.add({"role": "assistant", "content": text(entry.get("response"))})
    conversation.steps[-1].info["action"] = text(entry.get("action"))
    _describe(conversation.steps[-1], entry)
    _add_observation(conversation, entry)


def _add_observation(conversation: Conversation, entry: dict[str, Any]) -> None:
    """Add a move's observation. The last one never reached the history: the trajectory was over."""
    observation = text(entry.get("observation"))
    if observation:
        answers = conversation.steps[-1].message.get("tool_calls")
        conversation.add({"role": "tool" if answers else "user", "content": observation})


def _describe(step: StepRecord, entry: dict[str, Any]) -> None:
    step.seconds = number(entry.get("execution_time"))
    state = entry.get("state")
    if state:
        step.info["state"] = _decoded(state) if type(state) is str else state


def _history_of(entries: list[dict[str, Any]]) -> list[Message]:
    """A chat built from the moves alone, for files without a history."""
    prompt = (entries[0].get("query") or entries[0].get("messages")) if entries else None
    messages: list[Message] = prompt if type(prompt) is list else []
    messages = [
        message
        for message in messages
        if mapping(message).get("role") != "assistant" or mapping(message).get("is_demo")
    ]
    for entry in entries:
        messages.append({"role": "assistant", "content": text(entry.get("response")), "action": entry.get("action")})
        messages.append({"role": "user", "content": text(entry.get("observation"))})
    return messages


def _config(value: Json) -> dict[str, Any]:
    return mapping(_decoded(value) if type(value) is str else value)


def _decoded(entry: str) -> Json:
    try:
        return jsontext.parse(entry)
    except jsontext.UnreadableJSON:
        return entry


def _stem(filename: str) -> str:
    """The instance that a file is named after. Files with other names may hold many trajectories."""
    stem = _EXTENSIONS.sub("", filename)
    is_of_one = ".traj" in filename or instance_environment(stem) == "swe-bench"
    return stem if is_of_one and stem.lower() not in _NAMELESS else ""


FORMAT = Format(
    name="swe-agent",
    title="SWE-agent .traj",
    shape="`history` of messages with `agent`, and `trajectory` with `action` and `observation`",
    keys=(
        "trajectory.action trajectory.response",
        "trajectory.action trajectory.observation history",
        "trajectory environment info",
        "history.role history.agent",
        "history.role history.message_type",
        "history.role trajectory",
    ),
    accepts=_accepts,
    read=_read,
)
