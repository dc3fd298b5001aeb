"""Steps of observation, action, reward, and done, under the names used by environment logs and data sets.

Some are parallel lists of actions and observations. An observation normally precedes the action taken on it; one named
`observation` and written after the action is that action's result, as in ReAct logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from apps.ingest.normalization.columns import (
    ENVIRONMENT,
    INSTRUCTION,
    NAME,
    POLICY,
    TASK,
    TERMINATION,
    TOOLS,
    Columns,
    listed,
    named,
    nonempty_text,
    succeeded,
)
from apps.ingest.normalization.conversation import tool_schemas
from apps.ingest.normalization.fields import count, first_of, flag, mapping, number, prompt_key, reward_of, text
from apps.ingest.records import BadRow, Json, Message, Outcome, StepRecord, TaskRecord, TrajectoryRecord
from contract import jsontext

STEPS = ("steps", "trajectory", "trajectory_steps", "traj", "transitions", "episode")
PARALLEL = {
    **dict.fromkeys(("observations", "obs", "states", "accessibility_trees"), "obs"),
    **dict.fromkeys(("dones", "terminals", "terminations"), "done"),
    "rewards": "reward",
    "thoughts": "thought",
    "screenshots": "screenshot",
    "step_instructions": "step_instruction",
}
"""Lists that may accompany a list of actions, and the step field that each element becomes."""
BEFORE = ("obs", "observation", "state", "axtree", "axtree_txt", "accessibility_tree", "a11y_tree")
AFTER = ("next_obs", "next_observation", "next_state", "result")
WRITTEN = ("raw_prediction", "llm_output", "model_output")
"""The model's raw output, if the action beside it was parsed from it."""
THOUGHT = ("reasoning", "thought", "thinking", "reasoning_content")
DONE = ("done", "terminated", "terminal")
CALLED = ("name", "tool", "tool_name", "function", "action_type")
ARGUMENTS = ("arguments", "args", "kwargs", "parameters", "action_input", "input", "params")
ROW_KEYS = ("format", "info", "tags", "category", "difficulty", "held_out", "final_obs", "final_observation")
DESCRIBED = {"code": "action", "action": "described", "observation": "obs"}
STEP_KEYS = frozenset(
    {
        *BEFORE,
        *AFTER,
        *THOUGHT,
        *DONE,
        "action",
        "reward",
        "error",
        "seconds",
        "info",
        "prompt_tokens",
        "completion_tokens",
    }
)
EXPECTED_STEP = 'A step is {"obs": …, "action": …, "reward": …, "done": …}; `action` must be there.'


class Moves(NamedTuple):
    """The steps of a row, unparsed."""

    columns: tuple[str, ...]
    steps: list[Json]
    final: Json = None


def moves_in(row: dict[str, Json]) -> Moves | None:
    """The steps of a row under any of their names; None if there are none."""
    for name in STEPS:
        steps = _unnested(listed(row.get(name)) or [])
        if (
            steps
            and type(steps[0]) is dict
            and "action" in steps[0]
            and (name == "steps" or not _is_anothers(row, steps[0]))
        ):
            return Moves((name,), steps)
    if steps := _invoked(row):
        return Moves(("intermediate_steps", "output", "input"), steps)
    actions = listed(row.get("actions"))
    parallel = {name: listed(row.get(name)) or [] for name in PARALLEL} if actions else {}
    parallel = {
        name: values for name, values in parallel.items() if actions and len(values) in (len(actions), len(actions) + 1)
    }
    if not actions or not parallel:
        return None
    steps = [
        {"action": action, **{PARALLEL[name]: values[index] for name, values in parallel.items()}}
        for index, action in enumerate(actions)
    ]
    finals = (values[-1] for name, values in parallel.items() if PARALLEL[name] == "obs" and len(values) > len(actions))
    return Moves(("actions", *parallel), steps, next(finals, None))


def _unnested(steps: list[Json]) -> list[Json]:
    """The steps of AgentNet, which nests each step's fields under `value`: `code` is the action, and `action` its description."""
    if not all(type(mapping(mapping(step).get("value")).get("code")) is str for step in steps):
        return steps
    return [
        {**step, **{DESCRIBED.get(key, key): value for key, value in step["value"].items()}, "value": None}
        for step in steps
    ]


def _invoked(row: dict[str, Json]) -> list[Json]:
    """The steps of LangChain's AgentExecutor, which pairs each call with its result, and the final answer."""
    pairs = listed(row.get("intermediate_steps")) or []
    if not all(type(pair) is list and len(pair) == 2 and "tool" in mapping(pair[0]) for pair in pairs):
        return []
    steps: list[Json] = [
        {
            "action": {"tool": call["tool"], "arguments": call.get("tool_input")},
            "log": call.get("log"),
            "result": result,
        }
        for call, result in pairs
    ]
    answer = row.get("output")
    return [*steps, {"action": answer}] if steps and type(answer) is str else steps


def _is_anothers(row: dict[str, Json], step: dict[str, Json]) -> bool:
    """Whether a chat beside the moves has more detail, or the steps are in SWE-agent's or OpenHands' format."""
    is_event = "source" in step and "args" in step  # OpenHands
    return is_event or "response" in step or "messages" in row or "history" in row


def _required_steps(row: dict[str, Json]) -> list[Json]:
    """The `steps` of a row in which no moves were found. Raises BadRow."""
    steps = listed(row.get("steps"))
    if steps is None:
        problem = f"`steps` is {jsontext.describe(row['steps'])}." if "steps" in row else "`steps` is missing."
        raise BadRow(problem, f"`steps` is a list. {EXPECTED_STEP}")
    return steps


def _steps(row: dict[str, Json], moves: Moves, instruction: str) -> tuple[list[StepRecord], list[Message]]:
    steps: list[StepRecord] = []
    call_id, next_observation = "", None
    is_after = _is_written_after(moves.steps[0], instruction) if moves.steps else False
    for index, entry in enumerate(moves.steps):
        details = mapping(entry)
        before = None if is_after else first_of(details, *BEFORE)
        observations = [observation for observation in (next_observation, before) if observation is not None]
        says_nothing = "action" in details and not first_of(details, *WRITTEN, *THOUGHT)
        is_end = index == len(moves.steps) - 1 and (bool(observations) or says_nothing)
        if details.get("action") is None and steps and is_end:
            # Environment loops often log the final state and its reward as an extra step.
            steps[-1].done = steps[-1].done or _is_done(details)
            if reward := reward_of(details.get("reward")):
                steps[-1].reward = (steps[-1].reward or 0.0) + reward
            next_observation = observations[-1] if observations else None
            break
        if details.get("action") is None:
            raise BadRow(f"Step {index} has no action.", EXPECTED_STEP)
        context = _context(observations, call_id)
        if index == 0 and instruction and not (context and instruction in text(context[0]["content"])):
            context.insert(0, {"role": "user", "content": instruction})
        message, call_id = _assistant_message(details, index)
        info = {key: value for key, value in details.items() if key not in STEP_KEYS and value is not None}
        if type(written := first_of(details, *WRITTEN)) is str and written:
            info = {key: value for key, value in info.items() if key not in WRITTEN}
            if message["content"]:
                info["action"] = message["content"]
            message["content"] = written
            if (thought := message.get("reasoning_content")) and thought.strip() in written:
                info["thought"] = message.pop("reasoning_content")  # parsed from it, too
        next_observation = first_of(details, *(BEFORE if is_after else ()), *AFTER)
        steps.append(
            StepRecord(
                context=context,
                message=message,
                reward=reward_of(details.get("reward")),
                done=_is_done(details),
                error=text(details["error"]) if details.get("error") else None,
                seconds=number(details.get("seconds")),
                prompt_tokens=count(details.get("prompt_tokens")),
                completion_tokens=count(details.get("completion_tokens")),
                info={**mapping(details.get("info")), **info},
            )
        )
    final = first_of(row, "final_obs", "final_observation")
    closing = _context(
        [
            observation
            for observation in (next_observation, moves.final if final is None else final)
            if observation is not None
        ],
        call_id,
    )
    if not steps and instruction:
        closing.insert(0, {"role": "user", "content": instruction})
    return steps, closing


def _is_written_after(step: Json, instruction: str) -> bool:
    """Whether a step's `observation` is its action's result: it's written after the action and doesn't contain the task."""
    keys = list(mapping(step))
    if "observation" not in keys or "action" not in keys or "obs" in keys:
        return False
    gives_the_task = bool(instruction) and instruction in text(step["observation"])
    return keys.index("action") < keys.index("observation") and not gives_the_task


def _is_done(step: dict[str, Json]) -> bool:
    return flag(first_of(step, *DONE)) is True


def _context(observations: list[Json], call_id: str) -> list[Message]:
    """The observations, without a repeat at the boundary of two steps; the first is the result of a call, if one was made."""
    once = observations[:1] if len(observations) > 1 and observations[0] == observations[1] else observations
    return [_observation_message(observation, call_id if index == 0 else "") for index, observation in enumerate(once)]


def _observation_message(observation: Json, call_id: str) -> Message:
    if call_id:
        return {"role": "tool", "tool_call_id": call_id, "content": text(observation)}
    return {"role": "user", "content": text(observation)}


def _assistant_message(entry: dict[str, Any], index: int) -> tuple[Message, str]:
    """The assistant message of an action, and the id of its call (or "")."""
    action = entry["action"]
    message: Message = {"role": "assistant", "content": None}
    if thought := first_of(entry, *THOUGHT):
        message["reasoning_content"] = text(thought)
    details = mapping(action)
    name = next((key for key in CALLED if type(details.get(key)) is str and details[key]), "")
    arguments = first_of(details, *ARGUMENTS)
    if name and (arguments is None or type(arguments) in (dict, str)):
        if arguments is None:  # they are beside the name
            arguments = {key: value for key, value in details.items() if key not in (name, "id", *ARGUMENTS)}
        call_id = text(details.get("id")) or f"call_{index}"
        function = {"name": details[name], "arguments": arguments}
        message["tool_calls"] = [{"id": call_id, "type": "function", "function": function}]
        return message, call_id
    message["content"] = text(action)
    return message, ""


def read_moves(row: Json, filename: str = "") -> Iterator[TrajectoryRecord]:
    """Yields the run of a row that has moves. Raises BadRow."""
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", "An object with `task_id`, `instruction` and `steps`.")
    moves = moves_in(row) or Moves(("steps",), _required_steps(row))
    columns = Columns(row, (*moves.columns, *ROW_KEYS))
    key, instruction = columns.take(named, TASK), columns.take(nonempty_text, (*INSTRUCTION, "task", "input")) or ""
    steps, closing = _steps(row, moves, instruction)
    opening = steps[0].context if steps else []
    if not (key or instruction or opening):
        raise BadRow("Neither `task_id` nor `instruction` says which task this is.", "`task_id` is text or a number.")
    yield TrajectoryRecord(
        task=TaskRecord(
            key=key or instruction or prompt_key(opening),
            instruction=instruction,
            environment=columns.take(nonempty_text, ENVIRONMENT) or "",
            category=text(row.get("category")),
            difficulty=text(row.get("difficulty")),
            held_out=flag(row.get("held_out")) or False,
        ),
        steps=steps,
        closing=closing,
        tools=columns.take(lambda entry: tool_schemas(entry) or None, TOOLS) or [],
        policy=columns.take(nonempty_text, POLICY),
        id=columns.take(named, NAME) or "",
        outcome=Outcome(
            reward=columns.take_rewards(steps),
            success=succeeded(row, columns),
            termination=columns.take(nonempty_text, TERMINATION) or ("done" if steps and steps[-1].done else ""),
        ),
        tags=[text(tag) for tag in row["tags"]] if type(row.get("tags")) is list else [],
        info={**mapping(row.get("info")), **columns.rest()},
    )
