"""Retrace's own JSON Lines, the rich form: what rollouts write and exports give, read back without loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.conversation import EXPECTED_CONTENT, EXPECTED_ROLES
from apps.ingest.normalization.fields import count, flag, mapping, number, optional_list, required_list, reward_of, text
from apps.ingest.normalization.roles import ROLES
from apps.ingest.records import BadRow, Json, Message, StepRecord, TaskRecord, TrajectoryRecord
from contract import jsontext


def _accepts(row: Json) -> bool:
    if type(row) is not dict or type(row.get("steps")) is not list:
        return False
    steps = row["steps"]
    return text(row.get("format")).startswith("retrace/") or (
        type(row.get("task")) is dict and bool(steps) and type(steps[0]) is dict and "message" in steps[0]
    )


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", "An object with `task` and `steps`.")
    if text(row.get("format", "retrace/1")) != "retrace/1":
        raise BadRow(f"The format is {text(row['format'])[:40]}.", "`format` is retrace/1, the only version there is.")
    outcome = mapping(row.get("outcome"))
    policy = row.get("policy")
    yield TrajectoryRecord(
        task=_task(row.get("task")),
        steps=[_step(index, step) for index, step in enumerate(required_list(row, "steps"))],
        closing=[_message(message, "closing") for message in optional_list(row, "closing")],
        tools=optional_list(row, "tools"),
        policy=policy if type(policy) is str and policy else None,
        external_id=text(row.get("id")),
        reward=reward_of(outcome.get("reward")),
        success=flag(outcome.get("success")),
        termination=text(outcome.get("termination")),
        tags=[text(tag) for tag in optional_list(row, "tags")],
        info=mapping(row.get("info")),
    )


def _task(given: Json) -> TaskRecord:
    if type(given) is not dict or not given.get("key"):
        raise BadRow("`task` has no key.", '`task` is an object such as {"key": "…", "instruction": "…"}.')
    return TaskRecord(
        key=text(given["key"]),
        instruction=text(given.get("instruction")),
        environment=text(given.get("environment")),
        initial_state=given.get("initial_state") or {},
        success_check=given.get("success_check") or {},
        category=text(given.get("category")),
        difficulty=text(given.get("difficulty")),
        held_out=flag(given.get("held_out")) or False,
    )


def _step(index: int, given: Json) -> StepRecord:
    if type(given) is not dict:
        raise BadRow(f"Step {index} is {jsontext.describe(given)}.", EXPECTED_STEP)
    message = given.get("message")
    if type(message) is not dict or message.get("role") != "assistant":
        raise BadRow(f"Step {index} has no assistant message.", EXPECTED_STEP)
    context = given.get("context") or []
    if type(context) is not list:
        raise BadRow(f"Step {index} has a `context` that is {jsontext.describe(context)}.", EXPECTED_STEP)
    for heard in context:
        _message(heard, f"step {index}")
    _check_content(message, f"step {index}")
    if message.get("tool_calls"):
        _check_calls(message["tool_calls"], index)
    return StepRecord(
        context=context,
        message=message,
        reward=reward_of(given.get("reward")),
        done=given.get("done") is True,
        error=text(given["error"]) if given.get("error") else None,
        seconds=number(given.get("seconds")),
        prompt_tokens=count(given.get("prompt_tokens")),
        completion_tokens=count(given.get("completion_tokens")),
        info=mapping(given.get("info")),
    )


EXPECTED_STEP = 'A step is {"context": [messages], "message": {"role": "assistant", …}, "reward": …, "done": …}.'


def _message(given: Json, where: str) -> Message:
    if type(given) is not dict:
        raise BadRow(
            f"A message of {where} is {jsontext.describe(given)}.",
            "Each message is an object with `role` and `content`.",
        )
    if text(given.get("role")) not in ROLES:
        raise BadRow(f"A message of {where} has the role “{text(given.get('role'))[:60]}”.", EXPECTED_ROLES)
    _check_content(given, where)
    return given


def _check_content(message: Message, where: str) -> None:
    content = message.get("content")
    if type(content) is str or content is None:
        return
    if type(content) is not list or not all(type(part) is dict for part in content):
        raise BadRow(f"A message of {where} has a `content` that is {jsontext.describe(content)}.", EXPECTED_CONTENT)


def _check_calls(calls: Any, index: int) -> None:
    is_sound = type(calls) is list and all(
        type(call) is dict and type(call.get("function")) is dict and type(call["function"].get("name")) is str
        for call in calls
    )
    if not is_sound:
        raise BadRow(
            f"Step {index} has tool calls in another shape.",
            'A tool call is {"id": …, "type": "function", "function": {"name": …, "arguments": …}}.',
        )


FORMAT = Format(
    name="retrace",
    title="Retrace JSON Lines",
    shape="`task` with a `key`, and `steps` with `context` and `message`",
    keys=("format steps", "task steps.message"),
    accepts=_accepts,
    read=_read,
)
