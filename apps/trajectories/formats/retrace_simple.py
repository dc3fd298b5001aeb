"""Retrace's own JSON Lines, the simple form: a task id, an instruction, and steps of observation, action, reward and done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.trajectories import jsontext
from apps.trajectories.fields import count, first_of, flag, mapping, number, required_list, text
from apps.trajectories.formats import Format
from apps.trajectories.records import BadRow, Json, Message, StepRecord, TaskRecord, TrajectoryRecord

ROW_KEYS = frozenset(
    {
        "format",
        "id",
        "task_id",
        "instruction",
        "environment",
        "category",
        "difficulty",
        "held_out",
        "policy",
        "model",
        "tools",
    }
    | {"steps", "final_obs", "final_observation", "reward", "success", "termination", "tags", "info"}
)
STEP_KEYS = frozenset(
    {"obs", "observation", "action", "thought", "reasoning", "reward", "done", "error", "seconds", "info"}
    | {"prompt_tokens", "completion_tokens"}
)
EXPECTED_STEP = 'A step is {"obs": …, "action": …, "reward": …, "done": …}; `action` must be there.'


def _recognises(row: Json) -> bool:
    if type(row) is not dict or type(row.get("steps")) is not list or text(row.get("format")).startswith("retrace/"):
        return False
    steps = row["steps"]
    has_actions = bool(steps) and type(steps[0]) is dict and "action" in steps[0]
    return has_actions or ("task_id" in row and not steps)


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", "An object with `task_id`, `instruction` and `steps`.")
    instruction = text(row.get("instruction"))
    key = text(row.get("task_id")) or instruction
    if not key:
        raise BadRow("Neither `task_id` nor `instruction` says which task this is.", "`task_id` is text or a number.")
    steps, closing = _steps(row, instruction)
    rewards = [step.reward for step in steps if step.reward is not None]
    yield TrajectoryRecord(
        task=TaskRecord(
            key=key,
            instruction=instruction,
            environment=text(row.get("environment")),
            category=text(row.get("category")),
            difficulty=text(row.get("difficulty")),
            held_out=flag(row.get("held_out")) or False,
        ),
        steps=steps,
        closing=closing,
        tools=row["tools"] if type(row.get("tools")) is list else [],
        policy=text(first_of(row, "policy", "model")) or None,
        external_id=text(row.get("id")),
        # The return of an episode is the sum of its rewards; a stated one wins.
        reward=number(row["reward"]) if row.get("reward") is not None else sum(rewards) if rewards else None,
        success=flag(row.get("success")),
        termination=text(row.get("termination")) or ("done" if steps and steps[-1].done else ""),
        tags=[text(tag) for tag in row["tags"]] if type(row.get("tags")) is list else [],
        info={**mapping(row.get("info")), **{name: value for name, value in row.items() if name not in ROW_KEYS}},
    )


def _steps(row: dict[str, Json], instruction: str) -> tuple[list[StepRecord], list[Message]]:
    steps: list[StepRecord] = []
    call_id = ""
    for index, given in enumerate(required_list(row, "steps")):
        if type(given) is not dict or given.get("action") is None:
            raise BadRow(f"Step {index} has no action.", EXPECTED_STEP)
        observation = first_of(given, "obs", "observation")
        context = [] if observation is None else [_heard(observation, call_id)]
        if index == 0 and instruction and not (context and instruction in text(context[0]["content"])):
            context.insert(0, {"role": "user", "content": instruction})
        message, call_id = _said(given, index)
        steps.append(
            StepRecord(
                context=context,
                message=message,
                reward=number(given.get("reward")),
                done=given.get("done") is True,
                error=text(given["error"]) if given.get("error") else None,
                seconds=number(given.get("seconds")),
                prompt_tokens=count(given.get("prompt_tokens")),
                completion_tokens=count(given.get("completion_tokens")),
                info={
                    **mapping(given.get("info")),
                    **{key: value for key, value in given.items() if key not in STEP_KEYS},
                },
            )
        )
    final = first_of(row, "final_obs", "final_observation")
    closing = [] if final is None else [_heard(final, call_id)]
    if not steps and instruction:
        closing.insert(0, {"role": "user", "content": instruction})
    return steps, closing


def _heard(observation: Json, call_id: str) -> Message:
    if call_id:
        return {"role": "tool", "tool_call_id": call_id, "content": text(observation)}
    return {"role": "user", "content": text(observation)}


def _said(given: dict[str, Any], index: int) -> tuple[Message, str]:
    """The assistant message of an action, and the id of the call it makes (or "")."""
    action = given["action"]
    message: Message = {"role": "assistant", "content": None}
    if thought := first_of(given, "reasoning", "thought"):
        message["reasoning_content"] = text(thought)
    name = first_of(action, "name", "tool", "function") if type(action) is dict else None
    arguments = first_of(action, "arguments", "args", "kwargs", "parameters") if type(action) is dict else None
    if type(name) is str and name and (arguments is None or type(arguments) in (dict, str)):
        call_id = text(action.get("id")) or f"call_{index}"
        function = {"name": name, "arguments": {} if arguments is None else arguments}
        message["tool_calls"] = [{"id": call_id, "type": "function", "function": function}]
        return message, call_id
    message["content"] = text(action)
    return message, ""


FORMAT = Format(
    name="retrace-simple",
    title="Retrace JSON Lines, simple form",
    shape="`task_id`, `instruction`, and `steps` with `obs`, `action`, `reward` and `done`",
    recognises=_recognises,
    read=_read,
)
