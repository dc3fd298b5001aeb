"""One question and its answer in two columns, as instruction data sets and dumps of rollouts keep them: a run of one step.

An answer may be calls alone: a list of `{"name", "arguments"}`, as data sets of function calling have it.
"""

from __future__ import annotations

from collections.abc import Iterator

from apps.trajectories import jsontext
from apps.trajectories.columns import listed
from apps.trajectories.fields import mapping
from apps.trajectories.formats import Format
from apps.trajectories.formats.openai_chat import Chat, chat_trajectory
from apps.trajectories.records import BadRow, Json, TrajectoryRecord
from apps.trajectories.speakers import role_of

PROMPTS = ("prompt", "instruction", "input", "question", "query", "problem")
ANSWERS = ("completion", "response", "output", "answers", "generation", "generated_text", "prediction")
EXPECTED = f"One of {', '.join(PROMPTS)} and one of {', '.join(ANSWERS)}, as text or as chat messages."


def _recognises(row: Json) -> bool:
    if type(row) is not dict or "chosen" in row or "rejected" in row:
        return False
    return bool(_said(row, PROMPTS, "user")[1] and _said(row, ANSWERS, "assistant")[1])


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"An object. {EXPECTED}")
    asked, prompt = _said(row, PROMPTS, "user")
    answered, answer = _said(row, ANSWERS, "assistant")
    if not prompt or not answer:
        raise BadRow(f"There is no {'answer' if prompt else 'prompt'}.", EXPECTED)
    taken = [asked, answered]
    if asked == "instruction" and type(row.get("input")) is str and prompt[0].get("content"):
        # Alpaca: what the instruction is about stands beside it.
        prompt = [{"role": "user", "content": "\n\n".join(filter(None, (prompt[0]["content"], row["input"])))}]
        taken.append("input")
    yield chat_trajectory(Chat(row, prompt + answer, tuple(taken)))


def _said(row: dict[str, Json], names: tuple[str, ...], role: str) -> tuple[str, list[Json]]:
    """The column that says something, and what it says as messages; an empty list where none does."""
    for name in names:
        value = row.get(name)
        entries = listed(value) or []
        if entries and role_of(entries[0]):
            return name, entries
        if role == "assistant" and entries and all(type(mapping(call).get("name")) is str for call in entries):
            return name, [{"role": role, "content": None, "tool_calls": entries}]
        if type(value) is str and value:
            return name, [{"role": role, "content": value}]
    return "", []


FORMAT = Format(
    name="prompt-response",
    title="Prompts and responses",
    shape="a prompt (`prompt`, `instruction`, `input`, `question`, …) and an answer (`response`, `output`, …)",
    recognises=_recognises,
    read=_read,
    general=True,
)
