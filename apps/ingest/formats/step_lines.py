"""Separate steps, each a line or a table row: OSWorld's `traj.jsonl`, and environment logs with step numbers.

A new run begins when the episode's name changes or the step number doesn't increase. OSWorld's files have neither task nor outcome: in an
archive, their folders do. They have a line for each action: an answer with several actions is one step.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from apps.ingest.files.raw_records import RawRow, grouped
from apps.ingest.formats import Format, single_or_listed
from apps.ingest.normalization.actions import read_moves
from apps.ingest.normalization.columns import ENVIRONMENT, INSTRUCTION, NAME, POLICY, TASK, TERMINATION, named
from apps.ingest.normalization.fields import first_of, mapping, number, prompt_key, text
from apps.ingest.records import BadRow, Json, TrajectoryRecord
from contract import jsontext

SHAPE = "steps one by one, each with its number (`step_num`, `step`, …) and its `action`"
NUMBERS = ("step_num", "step_idx", "step_index", "step_id", "timestep", "step")
RUNS = ("episode_id", "episode", "trajectory_id", "traj_id", "run_id", "session_id")
EPISODES = (*RUNS, "task_id", "example_id")
"""Names that differ between runs. The first ones are also the same throughout a run, while a task may have several runs."""
OF_RUN = (
    "task",
    "trial",
    *EPISODES,
    *TASK,
    *INSTRUCTION,
    *ENVIRONMENT,
    *POLICY,
    *NAME,
    *TERMINATION,
    "tools",
    "success",
)
OF_OSWORLD = frozenset({"step_num", "action_timestamp", "screenshot_file"})
OSWORLD = "osworld"
FAILED = "Error"
"""Key of OSWorld's separate line for a truncated trajectory."""


def _number(line: Json) -> float | None:
    details = mapping(line)
    return number(first_of(details, *NUMBERS)) if "action" in details else None


def _accepts(row: Json) -> bool:
    return _number(row[0] if type(row) is list and row else row) is not None


def _begins(last: Json, line: Json) -> bool:
    """Whether a line begins another trajectory."""
    names, after = (named(first_of(mapping(row), *EPISODES)) for row in (last, line))
    if names and after and (names != after or first_of(mapping(line), *RUNS) is not None):
        return names != after
    numbers = _number(last), _number(line)
    return None not in numbers and numbers[0] >= numbers[1] and not _is_same_answer(last, line)  # type: ignore[operator]


def _is_same_answer(last: Json, line: Json) -> bool:
    """Whether two consecutive lines of OSWorld's are actions of the same answer."""
    both = mapping(last), mapping(line)
    if not all(step.keys() >= OF_OSWORLD for step in both):
        return False
    return all(both[0].get(key) == both[1].get(key) for key in ("step_num", "response"))


def _grouped(rows: Iterator[RawRow], limit: int) -> Iterator[RawRow]:
    return grouped(rows, limit, _begins)


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    lines = [mapping(line) for line in (row if type(row) is list else [row])]
    steps = [line for line in lines if "action" in line]
    if not steps:
        raise BadRow(f"The record is {jsontext.describe(row)} without steps.", f"{SHAPE}.")
    details = {key: value for line in lines for key, value in line.items() if key in OF_RUN and value is not None}
    run: dict[str, Any] = {"task_id": named(first_of(details, *EPISODES)), **details}
    is_osworld = steps[0].keys() >= OF_OSWORLD
    run["steps"] = [_of_osworld(step) if is_osworld else _without(step, OF_RUN) for step in steps]
    repeated = [is_osworld and _is_same_answer(*pair) for pair in pairwise(steps)]
    if is_osworld:
        alone = prompt_key([{"role": "steps", "content": lines}])  # in an archive, the folder gives the real task
        run |= {"task_id": run["task_id"] or alone, "environment": OSWORLD}
    if error := next((text(line[FAILED]) for line in lines if FAILED in line), ""):
        run["termination"] = error
    for record in read_moves({key: value for key, value in run.items() if value is not None}, filename):
        _join(record, repeated)
        yield record


def _join(record: TrajectoryRecord, repeated: list[bool]) -> None:
    """Join the steps of an answer with several actions; `repeated` says of each step but the first whether it's of the answer before it."""
    steps = record.steps[:1]
    for step, is_repeated in zip(record.steps[1:], repeated, strict=False):
        if not is_repeated:
            steps.append(step)
            continue
        answer = steps[-1]
        answer.done = answer.done or step.done
        answer.info.setdefault("actions", [dict(answer.info)]).append(step.info)
        if calls := step.message.get("tool_calls"):
            answer.message["tool_calls"] = [*answer.message.get("tool_calls", ()), *calls]
        if "action" not in step.info and not calls:  # no answer was recorded: its actions are all that's known of it
            answer.message["content"] = "\n".join(filter(None, (answer.message["content"], step.message["content"])))
    record.steps = steps


def _of_osworld(step: dict[str, Any]) -> dict[str, Any]:
    """The model's text is `response`. Steps have no rewards of their own: the recorded 0 is meaningless."""
    return {**_without(step, ("response", "reward")), "model_output": step.get("response")}


def _without(step: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in step.items() if key not in names}


FORMAT = Format(
    name="step-lines",
    title="Steps one by one",
    shape=SHAPE,
    keys=single_or_listed(*(f"{name} action" for name in NUMBERS)),
    accepts=_accepts,
    read=_read,
    gather=_grouped,
    general=True,
)
