"""SWE-agent `.traj`, 0.x and 1.x.

`history` is the chat and decides what the steps are; `trajectory` adds each action's parsed form, duration and shell state. Demonstrations
(`is_demo`, whatever their role) were shown to the agent and are context. Some files have only a history, some histories lack the last action,
and `trajectory[].messages` of 1.x repeats the whole prompt in every step and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from apps.trajectories import jsontext
from apps.trajectories.chats import Conversation
from apps.trajectories.fields import flag, mapping, number, optional_list, prompt_key, prompt_of, text
from apps.trajectories.formats import Format
from apps.trajectories.outlines import text_of
from apps.trajectories.records import BadRow, Json, Message, StepRecord, TaskRecord, TrajectoryRecord

BOOKKEEPING = frozenset(
    {"agent", "message_type", "thought", "action", "is_demo", "tags", "cache_control", "thinking_blocks"}
)
INSTANCE = re.compile(r"[\w.-]+__[\w.-]+-\d+")
_ISSUE = re.compile(
    r"\bISSUE:\s*\n(.*?)\n\s*INSTRUCTIONS:|<pr_description>\s*(?:Consider the following PR description:\s*)?(.*?)</pr_description>",
    re.DOTALL,
)
_EXTENSIONS = re.compile(r"(?:\.traj|\.json|\.jsonl|\.gz|\.zst)+$")
_NAMELESS = frozenset({"", "traj", "trajectory", "output", "result", "results"})


def _recognises(row: Json) -> bool:
    if type(row) is not dict:
        return False
    trajectory, history = row.get("trajectory"), row.get("history")
    if type(trajectory) is list and trajectory:
        first = mapping(trajectory[0])
        return "action" in first and ("observation" in first or "response" in first)
    if type(history) is not list or not history:
        return type(trajectory) is list and "environment" in row and "info" in row
    first = mapping(history[0])
    return "role" in first and ("agent" in first or "message_type" in first or "trajectory" in row)


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", "An object with `history` and `trajectory`.")
    moves = [mapping(move) for move in optional_list(row, "trajectory")]
    history = optional_list(row, "history") or _history_of(moves)
    if not history and not moves:
        raise BadRow(
            "Neither `history` nor `trajectory` holds anything.",
            "`history` is a list of messages with `role` and `content`.",
        )
    conversation = Conversation()
    for message in history:
        _add(conversation, message)
    skipped = _join(conversation, moves)
    info = mapping(row.get("info"))
    config = _config(row.get("replay_config"))
    problem = mapping(config.get("problem_statement"))
    opening = [
        m
        for m in (conversation.steps[0].context if conversation.steps else conversation.waiting)
        if not m.get("is_demo")
    ]
    instance = text(problem.get("id")) or text(row.get("instance_id")) or _stem(filename)
    model = mapping(mapping(config.get("agent")).get("model"))
    yield TrajectoryRecord(
        task=TaskRecord(
            key=instance or prompt_key(opening),
            instruction=text(problem.get("text")) or issue_of(prompt_of(opening)),
            environment=instance_environment(instance),
        ),
        steps=conversation.steps,
        closing=conversation.waiting,
        policy=text(first) if (first := model.get("name") or model.get("model_name")) else None,
        external_id=instance,
        reward=number(info.get("reward")),
        success=flag(info.get("resolved")),
        termination=text(info.get("exit_status")),
        info={
            **{key: value for key, value in info.items() if key not in ("exit_status", "reward", "resolved")},
            **({"environment": row["environment"]} if row.get("environment") else {}),
            **({"moves_without_a_message": skipped} if skipped else {}),
        },
    )


def issue_of(prompt: str) -> str:
    """The issue to solve, out of the prompt that wraps it; the whole prompt where no wrapping is known."""
    found = _ISSUE.search(prompt)
    return (found[1] or found[2]).strip() if found and (found[1] or found[2]) else prompt


def instance_environment(instance: str) -> str:
    """Instances such as `owner__repository-123` are the same task in every agent's logs."""
    return "swe-bench" if INSTANCE.fullmatch(instance) else "swe-agent"


def _add(conversation: Conversation, given: Json) -> None:
    if type(given) is not dict:
        raise BadRow(
            f"An entry of `history` is {jsontext.describe(given)}.",
            "Each entry is an object with `role` and `content`.",
        )
    message = {key: value for key, value in given.items() if key not in BOOKKEEPING and value is not None}
    if given.get("is_demo"):
        conversation.waiting.append(
            {"role": message.get("role", "user"), "content": message.get("content", ""), "is_demo": True}
        )
        return
    step = conversation.add(message)
    if step is not None:
        step.info.pop("tool_call_ids", None)
        if type(given.get("action")) is str:
            step.info["action"] = given["action"]


def _join(conversation: Conversation, moves: list[dict[str, Any]]) -> int:
    """Tell each step what its move in `trajectory` adds; answers how many moves before the last step the history lacks."""
    place = skipped = 0
    for step in conversation.steps:
        found = next((at for at in range(place, len(moves)) if _is_move_of(step, moves[at])), None)
        if found is not None:
            skipped += found - place
            _describe(step, moves[found])
            place = found + 1
    rest = moves[place:]
    if rest and conversation.steps and not _is_answered(conversation):
        # The history's last message was edited by hand, or is missing its twin: what follows cannot be placed.
        return skipped + len(rest)
    for move in rest:
        conversation.add({"role": "assistant", "content": text(move.get("response"))})
        conversation.steps[-1].info["action"] = text(move.get("action"))
        _describe(conversation.steps[-1], move)
        _hear(conversation, move)
    if moves and conversation.steps and not rest:
        _hear(conversation, moves[-1])
    return skipped


def _is_move_of(step: StepRecord, move: dict[str, Any]) -> bool:
    said = text_of(step.message.get("content"))
    action = step.info.get("action")
    return said == text(move.get("response")) or (bool(action) and action == move.get("action"))


def _is_answered(conversation: Conversation) -> bool:
    return bool(conversation.waiting)


def _hear(conversation: Conversation, move: dict[str, Any]) -> None:
    """The last observation never reached the agent's history: the run was over. It is still what came back."""
    observation = text(move.get("observation"))
    if observation and not conversation.waiting:
        conversation.add(
            {"role": "tool" if conversation.steps[-1].message.get("tool_calls") else "user", "content": observation}
        )


def _describe(step: StepRecord, move: dict[str, Any]) -> None:
    step.seconds = number(move.get("execution_time"))
    state = move.get("state")
    if state:
        step.info["state"] = _decoded(state) if type(state) is str else state


def _history_of(moves: list[dict[str, Any]]) -> list[Message]:
    """A chat from the moves alone, for files without a history."""
    prompt = (moves[0].get("query") or moves[0].get("messages")) if moves else None
    messages: list[Message] = prompt if type(prompt) is list else []
    messages = [
        message
        for message in messages
        if mapping(message).get("role") != "assistant" or mapping(message).get("is_demo")
    ]
    for move in moves:
        messages.append({"role": "assistant", "content": text(move.get("response")), "action": move.get("action")})
        messages.append({"role": "user", "content": text(move.get("observation"))})
    return messages


def _config(given: Json) -> dict[str, Any]:
    return mapping(_decoded(given) if type(given) is str else given)


def _decoded(given: str) -> Json:
    try:
        return jsontext.loads(given.encode("utf-8", "surrogatepass"))
    except jsontext.UnreadableJSON:
        return given


def _stem(filename: str) -> str:
    stem = _EXTENSIONS.sub("", filename)
    return "" if stem.lower() in _NAMELESS else stem


FORMAT = Format(
    name="swe-agent",
    title="SWE-agent .traj",
    shape="`history` of messages with `agent`, and `trajectory` with `action` and `observation`",
    recognises=_recognises,
    read=_read,
)
