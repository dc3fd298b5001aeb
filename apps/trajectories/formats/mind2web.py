"""Mind2Web: what people did on web pages, an action with its page a step. `action_reprs` says each action as the agents of its paper do."""

from __future__ import annotations

from collections.abc import Iterator

from apps.trajectories import jsontext
from apps.trajectories.formats import Format
from apps.trajectories.records import BadRow, Json, StepRecord, TaskRecord, TrajectoryRecord
from apps.trajectories.spellings.fields import first_of, mapping, required_list, text

SHAPE = "`annotation_id`, `confirmed_task`, `action_reprs` and `actions`"


def _recognises(row: Json) -> bool:
    return {"confirmed_task", "action_reprs", "actions"} <= mapping(row).keys()


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"{SHAPE}.")
    told, actions = required_list(row, "action_reprs"), required_list(row, "actions")
    if len(told) != len(actions):
        raise BadRow(f"`action_reprs` tells {len(told)} actions, and `actions` has {len(actions)}.", f"{SHAPE}.")
    instruction = text(row.get("confirmed_task"))
    steps = [_step(mapping(action), text(words)) for action, words in zip(actions, told, strict=True)]
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
        external_id=text(row.get("annotation_id")),
        info={key: row[key] for key in ("website", "subdomain") if row.get(key)},
    )


def _step(action: dict[str, Json], words: str) -> StepRecord:
    page = text(first_of(action, "cleaned_html", "raw_html"))
    return StepRecord(
        context=[{"role": "user", "content": page}] if page else [],
        message={"role": "assistant", "content": words},
        info={key: action[key] for key in ("action_uid", "operation") if action.get(key)},
    )


FORMAT = Format(name="mind2web", title="Mind2Web", shape=SHAPE, recognises=_recognises, read=_read)
