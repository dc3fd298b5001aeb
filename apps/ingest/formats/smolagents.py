"""smolagents memories: the steps of a trajectory, alone (`get_full_steps()`), in its result, or as the messages stored by its GAIA runs.

A code-writing agent calls no tool: what smolagents records as a `python_interpreter` call is the code in its text, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.common.nested_json import Unreadable, decode_result
from apps.ingest.formats import Format
from apps.ingest.normalization.columns import (
    ENVIRONMENT,
    INSTRUCTION,
    NAME,
    POLICY,
    TASK,
    Columns,
    named,
    nonempty_text,
    succeeded,
)
from apps.ingest.normalization.conversation import Conversation
from apps.ingest.normalization.fields import count, mapping, number, prompt_key, prompt_of, text
from apps.ingest.records import BadRow, Json, Message, Outcome, TaskRecord, TrajectoryRecord, text_of
from contract import jsontext

SHAPE = "a list of steps with `task` and `model_output`, or an object with them in `steps` or `intermediate_steps`"
KEYS = ("steps", "intermediate_steps", "agent_memory", "memory", "messages")
OPENINGS = ("system_prompt", "task")
WRITTEN_CODE = "python_interpreter"
CALLING = "Calling tools:"


def _key_and_steps(row: Json) -> tuple[str, list[dict[str, Any]]]:
    for key in KEYS if type(row) is dict else ("",):
        entry = row.get(key) if key else row
        steps = [mapping(step) for step in entry] if type(entry) is list else []
        if any("model_output" in step and "observations" in step for step in steps):
            return key, steps
        if any(step.get("role") in ("tool-call", "tool-response") for step in steps):
            return key, steps
    return "", []


def _accepts(row: Json) -> bool:
    first = mapping(row[0]) if type(row) is list and row else {}
    opens = "system_prompt" in first or ("task" in first and "task_images" in first)
    return bool(_key_and_steps(row)[1]) or (opens and first.keys() <= {"system_prompt", "task", "task_images"})


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    key, steps = _key_and_steps(row)
    if not steps:
        raise BadRow(f"The record is {jsontext.describe(row)} without steps.", f"{SHAPE}.")
    conversation = Conversation()
    for entry in steps:
        if "role" in entry:
            _add_message(conversation, entry)
        else:
            _add_step(conversation, entry)
    columns = Columns(mapping(row), (key,))
    prompt = [message for message in conversation.opening if message["role"] != "assistant"]
    yield TrajectoryRecord(
        task=TaskRecord(
            key=columns.take(named, TASK) or prompt_key(prompt),
            instruction=columns.take(nonempty_text, INSTRUCTION) or _task_in(steps) or prompt_of(prompt),
            environment=columns.take(nonempty_text, ENVIRONMENT) or "",
        ),
        steps=conversation.steps,
        closing=conversation.waiting,
        policy=columns.take(nonempty_text, (*POLICY, "agent_name")),
        id=columns.take(named, NAME) or "",
        outcome=Outcome(
            reward=columns.take_rewards(conversation.steps),
            success=succeeded(columns.row, columns),
            termination=text(columns.row.get("state")) if type(columns.row.get("state")) is str else "",
        ),
        info=columns.rest(),
    )


def _task_in(steps: list[dict[str, Any]]) -> str:
    return next((text(step["task"]) for step in steps if type(step.get("task")) is str), "")


def _add_step(conversation: Conversation, entry: dict[str, Any]) -> None:
    for key, role in zip(OPENINGS, ("system", "user"), strict=True):
        if type(entry.get(key)) is str and "model_output" not in entry:
            conversation.add({"role": role, "content": entry[key]})
            return
    answered = mapping(entry.get("model_output_message"))
    output = entry.get("model_output")
    output = answered.get("content") if output is None else output
    output = entry.get("plan") if output is None else output
    calls = _calls(entry.get("tool_calls"))
    if output is None and not calls:
        return  # the model didn't answer
    step = conversation.add({"role": "assistant", "content": output, "tool_calls": calls})
    failed = mapping(entry.get("error"))
    for observed in (entry.get("observations"), failed.get("message")):
        if observed:
            conversation.add({"role": "tool" if calls else "user", "content": observed})
    if step:
        usage, timing = mapping(entry.get("token_usage")), mapping(entry.get("timing"))
        step.prompt_tokens, step.completion_tokens = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
        step.seconds = number(timing.get("duration") if timing else entry.get("duration"))
        step.error = text(failed.get("message")) or None
        step.done = entry.get("is_final_answer") is True
        if type(entry.get("code_action")) is str:
            step.info["action"] = entry["code_action"]


def _add_message(conversation: Conversation, message: Message) -> None:
    role = message.get("role")
    if role == "tool-call":
        written = text_of(message.get("content")).strip().removeprefix(CALLING).strip()
        try:
            calls = decode_result(written)
        except Unreadable:
            calls = written
        if type(calls) is list:
            calls = _calls(calls)
        elif WRITTEN_CODE in written:
            return
        if calls:
            conversation.add({"role": "function_call", "content": calls})
    elif role == "tool-response":
        called = conversation.steps and not conversation.waiting and conversation.steps[-1].message.get("tool_calls")
        conversation.add({**message, "role": "tool" if called else "user"})
    else:
        conversation.add(message)


def _calls(value: Json) -> list[dict[str, Any]]:
    """The calls in a list, without those that are the code in the agent's text. An agent that calls tools names the code as an argument."""
    calls = [mapping(call) for call in value] if type(value) is list else []
    functions = [mapping(call.get("function")) for call in calls]
    return [
        call
        for call, function in zip(calls, functions, strict=True)
        if function.get("name") != WRITTEN_CODE or type(function.get("arguments")) is dict
    ]


FORMAT = Format(
    name="smolagents",
    title="smolagents memory",
    shape=SHAPE,
    keys=(
        *(f"{key}.model_output {key}.observations" for key in KEYS),
        *(f"{key}.role" for key in KEYS),
        "[].model_output [].observations",
        "[].role",
        "[].system_prompt",
        "[].task [].task_images",
    ),
    accepts=_accepts,
    read=_read,
)
