"""Rows of `prompt`, `completion`, and `reward`: verifiers' results.jsonl, and the prompt–completion sets that TRL reads.

Tool calls are doubly encoded JSON strings, and results carry no call ids. Every numeric column is a metric, with names that
vary by environment. A plain-text completion comes from a base model without a chat template.
"""

from __future__ import annotations

from collections.abc import Iterator

from apps.ingest.formats import Format
from apps.ingest.normalization.chat import Chat, chat_trajectory
from apps.ingest.normalization.columns import TASK, Columns, listed, named
from apps.ingest.normalization.fields import first_of, mapping, number, prompt_key, text
from apps.ingest.normalization.roles import role_of
from apps.ingest.records import BadRow, Json, TrajectoryRecord
from contract import jsontext

OF_RUN = ("generation_ms", "scoring_ms", "total_ms", "rollout")
USED = ("prompt", "completion", "answer", "example_id", "task", "env_id")
EXPECTED = "`prompt` and `completion` are texts or lists of chat messages."


def _accepts(row: Json) -> bool:
    if type(row) is not dict:
        return False
    return type(row.get("prompt")) in (str, list) and type(row.get("completion")) in (str, list)


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"An object. {EXPECTED}")
    prompt, completion = _messages(row, "prompt", "user"), _messages(row, "completion", "assistant")
    trajectory = chat_trajectory(Chat(row, completion, USED, prompt=prompt))
    environment = text(first_of(row, "env_id", "task"))
    # `example_id` is only unique within one run of one environment, so runs with equal prompts share a task. Games give all
    # players the same prompt; there the hidden answer, or the example's `info`, distinguishes them.
    hidden = {key: value for key, value in mapping(row.get("info")).items() if key != "oai_tools"}
    if Columns(row).take(named, TASK) is None:
        trajectory.task.key = prompt_key([*prompt, {"role": "answer", "content": [row.get("answer"), hidden]}])
    if environment:
        trajectory.task.environment = "" if environment == "default" else environment
    if row.get("answer") is not None:
        trajectory.task.success_check = {"answer": row["answer"]}
    trajectory.id = text(row.get("example_id")) or trajectory.id
    metrics = {key: value for key, value in trajectory.info.items() if key not in OF_RUN and _is_metric(row, key)}
    if metrics:
        info = {key: value for key, value in trajectory.info.items() if key not in metrics}
        trajectory.info = {**info, "metrics": {**mapping(info.get("metrics")), **metrics}}
    milliseconds = number(row.get("generation_ms"))
    if milliseconds:
        trajectory.info["seconds"] = milliseconds / 1000
    if [{"role": "assistant", "content": row["completion"]}] == completion:
        trajectory.info["completion_mode"] = True
    yield trajectory


def _is_metric(row: dict[str, Json], key: str) -> bool:
    return type(row.get(key)) in (int, float) and number(row[key]) is not None


def _messages(row: dict[str, Json], key: str, role: str) -> list[Json]:
    entry = row.get(key)
    if type(entry) is str and (entries := listed(entry)) and role_of(entries[0]):
        entry = entries  # messages in a table cell, as JSON
    if type(entry) is str:
        return [{"role": role, "content": entry}]
    if type(entry) is not list:
        raise BadRow(f"`{key}` is {jsontext.describe(entry)}." if key in row else f"`{key}` is missing.", EXPECTED)
    return [{**message, "role": message.get("role") or role} if mapping(message) else message for message in entry]


FORMAT = Format(
    name="verifiers",
    title="Prompt and completion rows (verifiers, TRL)",
    shape="`prompt`, `completion` and perhaps `reward`",
    keys=("prompt completion",),
    accepts=_accepts,
    read=_read,
    yields_to=("judged-pairs",),
)
