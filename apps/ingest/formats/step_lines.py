"""Separate steps, each a line or a table row: OSWorld's `traj.jsonl`, and environment logs with step numbers.

A new run begins when the episode's name changes or the step number doesn't increase. OSWorld's files have neither task nor outcome: in an
archive, their folders do.
"""

from __future__ import annotations

from collections.abc import Iterator
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
EPISODES = ("episode_id", "episode", "trajectory_id", "traj_id", "run_id", "session_id", "task_id", "example_id")
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
    numbers = _number(last), _number(line)
    return names != after if names and after else None not in numbers and numbers[0] >= numbers[1]  # type: ignore[operator]


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
    if is_osworld:
        alone = prompt_key([{"role": "steps", "content": lines}])  # in an archive, the folder gives the real task
        run |= {"task_id": run["task_id"] or alone, "environment": OSWORLD}
    if error := next((text(line[FAILED]) for line in lines if FAILED in line), ""):
        run["termination"] = error
    yield from read_moves({key: value for key, value in run.items() if value is not None}, filename)


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
