"""Records of another format inside an object: `{"results": […]}`, `{"run-1": {…}, "run-2": {…}}`, `{"task_id": …, "trials": […]}`, tables as JSON.

The object's task, policy, and tools apply to the records inside that lack their own. It's read as one record, so all of it
must fit the size limit of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from apps.ingest import formats
from apps.ingest.formats import Format
from apps.ingest.normalization.columns import (
    ENVIRONMENT,
    INSTRUCTION,
    POLICY,
    PROMPTS,
    REWARD,
    SUCCESS,
    SYSTEM,
    TASK,
    TERMINATION,
    TOOLS,
)
from apps.ingest.normalization.roles import role_of
from apps.ingest.records import BadRow, Json, TrajectoryRecord, numbered, read_each

DEEPEST = 3
"""Levels of nesting searched: tasks, their trajectories, and a wrapper around everything."""

SHARED = frozenset(
    {
        "task",
        *PROMPTS,
        *(name for name in (*TASK, *INSTRUCTION, *ENVIRONMENT, *POLICY, *TOOLS, *SYSTEM) if "." not in name),
    }
)


OF_ONE = frozenset({"steps", "trajectory_steps", "transitions", "turns", "trajectory", "traj", "episode"})
"""Lists that belong to a single trajectory: their elements aren't trajectories, whatever they look like."""
DESCRIBED = "columns"
"""Key of a data set description that gives the roles of its columns, such as prompt and answer. Such an object looks like a record but isn't one."""
FIELDS_OF_EACH = frozenset(name for name in (*REWARD, *SUCCESS, *POLICY, *TERMINATION) if "." not in name)


class Inside(NamedTuple):
    """The records in an object, and their format."""

    records: list[Json]
    format: Format


def _with_parallel_lists(row: dict[str, Json], name: str) -> list[Json]:
    """The records under a name, with the fields that the object gives for all of them, and for each of them in lists of the same length."""
    value = row[name]
    of_all = {key: value for key, value in row.items() if key in SHARED and key != name}
    parallel = {key: values for key, values in row.items() if type(values) is list and key != name}
    lists = {key.removesuffix("s"): values for key, values in parallel.items() if len(values) == len(value)}
    of_each = {key: values for key, values in lists.items() if key in FIELDS_OF_EACH and key not in of_all}
    records: list[Json] = []
    for index, entry in enumerate(value):
        if type(entry) is list and entry and role_of(entry[0]) and (of_all or of_each):
            entry = {"messages": entry}
        fields = {key: values[index] for key, values in of_each.items()}
        records.append({**of_all, **fields, **entry} if type(entry) is dict else entry)
    return records


def _tabled(row: dict[str, Json]) -> list[Json]:
    """The records of a table as pandas writes it (an object per column or row, or cells separate from names), or as a hub's viewer does."""
    columns, cells = row.get("columns"), row.get("data")
    if type(columns) is list and type(cells) is list and all(type(name) is str for name in columns):
        return [dict(zip(columns, row_cells, strict=False)) for row_cells in cells if type(row_cells) is list]
    if type(row.get("rows")) is list and "features" in row:
        return [entry["row"] for entry in row["rows"] if type(entry) is dict and "row" in entry]
    first = next(iter(row.values()), None)
    if (
        type(first) is not dict
        or not first
        or not all(type(v) is dict and v.keys() == first.keys() for v in row.values())
    ):
        return []
    if all(name.isdecimal() for name in row):
        return list(row.values())
    return [{name: column[index] for name, column in row.items()} for index in first]


def _inside(row: Json, depth: int = DEEPEST) -> Inside | None:
    if type(row) is not dict or not depth:
        return None
    lists: Inside | None = None
    for name, value in row.items():
        if type(value) is not list or not value or type(value[0]) not in (dict, list) or name in OF_ONE:
            continue
        records = _with_parallel_lists(row, name)
        if format := _known_format(records[0], depth):
            # Separate steps form one trajectory, and their list is its record.
            records = [records] if format.name == "step-lines" else records
            if lists is None:
                lists = Inside(records, format)
            elif lists.format is format:  # such as a list of each split
                lists.records.extend(records)
    if lists:
        return lists
    objects = {name: value for name, value in row.items() if type(value) is dict and name != DESCRIBED}
    for name, value in objects.items():
        format = _known_format(value, depth)
        if format is None or format.name == "prompt-response":  # these two keys are too often something else
            continue
        if len(objects) == len(row) > 1:
            return Inside([{"id": label, **fields} for label, fields in objects.items()], format)
        return Inside([{**{key: outer for key, outer in row.items() if key != name}, **value}], format)
    records = _tabled(row)
    format = _known_format(records[0], depth) if records else None
    return Inside(records, format) if format else None


def _known_format(value: Json, depth: int) -> Format | None:
    try:
        format_ = formats.format_of(value, besides=FORMAT.name)
    except formats.AmbiguousFormat:
        return None
    return format_ or (FORMAT if _inside(value, depth - 1) else None)


def _accepts(row: Json) -> bool:
    return _inside(row) is not None


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    wrapped = _inside(row)
    if wrapped is None:
        raise BadRow("No key holds a list of records.", f"{FORMAT.shape}.")
    yield from read_each(numbered("Element", wrapped.records), lambda record: wrapped.format.read(record, filename))


FORMAT = Format(
    name="wrapped",
    title="Records in an object",
    shape="an object, one of whose keys holds a list of records in one of the other formats",
    keys=("*",),
    accepts=_accepts,
    read=_read,
    general=True,
    yields_to=("judged-pairs", "labeled-steps", "openai-chat", "prompt-response", "step-lines"),
)
