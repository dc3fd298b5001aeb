"""Mind2Web: people's actions on web pages, each step an action and its page. `action_reprs` words each action as the paper's agents do.

In Multimodal-Mind2Web each action is a row, with a screenshot; the rows of a task are consecutive.
"""

from __future__ import annotations

from collections.abc import Iterator

from apps.ingest.files.raw_records import RawRow, grouped
from apps.ingest.formats import Format, single_or_listed
from apps.ingest.normalization.fields import first_of, mapping, required_list, text
from apps.ingest.records import BadRow, Json, StepRecord, TaskRecord, TrajectoryRecord
from contract import jsontext

OF_ROW = "target_action_reprs"
"""A row's own action, in files with one row per action."""
SHAPE = "`annotation_id`, `confirmed_task`, `action_reprs` and `actions`"


def _grouped(rows: Iterator[RawRow], limit: int) -> Iterator[RawRow]:
    return grouped(rows, limit, _begins)


def _begins(last: Json, row: Json) -> bool:
    names = [mapping(line).get("annotation_id") if OF_ROW in mapping(line) else None for line in (last, row)]
    return names[0] != names[1] or None in names


def _joined(rows: list[dict[str, Json]]) -> dict[str, Json]:
    """Joins the rows of a task's actions, or returns the single row that already holds them."""
    if OF_ROW not in rows[0]:
        return rows[0]
    return {**rows[0], "actions": rows, "action_reprs": [row.get(OF_ROW) for row in rows]}


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    rows = [mapping(line) for line in (row if type(row) is list else [row])]
    if not rows or not rows[0]:
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"{SHAPE}.")
    row = _joined(rows)
    described, actions = required_list(row, "action_reprs"), required_list(row, "actions")
    if len(described) != len(actions):
        raise BadRow(f"`action_reprs` has {len(described)} actions, and `actions` has {len(actions)}.", f"{SHAPE}.")
    instruction = text(row.get("confirmed_task"))
    steps = [_step(mapping(action), text(description)) for action, description in zip(actions, described, strict=True)]
    if steps:
        steps[0].context.insert(0, {"role": "user", "content": instruction})
    yield TrajectoryRecord(
        task=TaskRecord(
            key=text(row.get("annotation_id")) or instruction,
            instruction=instruction,
            environment="mind2web",
            category=text(row.get("domain")),
        ),
        steps=steps,
        id=text(row.get("annotation_id")),
        info={key: row[key] for key in ("website", "subdomain") if row.get(key)},
    )


def _step(action: dict[str, Json], description: str) -> StepRecord:
    page = text(first_of(action, "cleaned_html", "raw_html"))
    picture = mapping(action.get("screenshot")).get("bytes")
    observation: Json = page
    if type(picture) is str:  # base64, which is how Parquet's bytes are read
        kind = "image/png" if picture.startswith("iVBOR") else "image/jpeg"
        observation = [
            {"type": "text", "text": page},
            {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{picture}"}},
        ]
    return StepRecord(
        context=[{"role": "user", "content": observation}] if page or picture else [],
        message={"role": "assistant", "content": description},
        info={key: action[key] for key in ("action_uid", "operation") if action.get(key)},
    )


FORMAT = Format(
    name="mind2web",
    title="Mind2Web",
    shape=SHAPE,
    keys=single_or_listed("confirmed_task action_reprs actions", f"confirmed_task action_reprs {OF_ROW}"),
    read=_read,
    gather=_grouped,
)
