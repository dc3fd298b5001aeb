"""Two answers side by side, as data sets of preferences keep them: two runs of one task.

Every data set spells in its own way which one was preferred (1 and 2, 0 and 1, names), so that is not guessed. The columns that say it are kept
with both runs, for a researcher who says what they mean and makes judgements of them; `chosen` and `rejected` become tags too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from apps.trajectories import jsontext
from apps.trajectories.formats import Format
from apps.trajectories.formats.openai_chat import NAMES_OF_CHAT, Chat, chat_trajectory
from apps.trajectories.formats.prompt_response import with_subject
from apps.trajectories.records import BadRow, Json, TrajectoryRecord, read_each
from apps.trajectories.spellings.columns import Columns, listed, named
from apps.trajectories.spellings.speakers import role_of

COMPARED = "compared"
"""What both runs keep: `pair`, a digest of the record that held them, and `side`, which of its answers is theirs."""
NAMES = ("chosen", "rejected")
PAIRED = (
    *("response", "response_", "output", "output_", "completion", "completion_", "answer", "answer_"),
    *("conversation_", "human_ref_", "trajectory_"),
)
SIDES = (("a", "b", "c"), ("A", "B", "C"), ("0", "1", "2"), ("1", "2", "3"), ("j", "k", "l"))
"""How the two sides of a pair are called, `response_a` and `response_b`, say; with the third name there are more than two answers."""
ASKED = (
    *("prompt", "messages", "conversations", "conversation", "context", "history"),
    *("instruction", "question", "query", "input", "post"),
)
TRANSCRIPT = re.compile(r"\n\n(Human|Assistant): ?")
EXPECTED = (
    "What was asked (`prompt`, as text or messages) beside `chosen` and `rejected`, or `response_a` and `response_b`."
)


class Pair(NamedTuple):
    """The names of the columns that hold the two answers, and what each side is called."""

    columns: tuple[str, str]
    sides: tuple[str, str]


def _pair_of(row: Json) -> Pair | None:
    if type(row) is not dict:
        return None
    for suffix in ("", "_messages"):
        if all(f"{side}{suffix}" in row for side in NAMES):
            return Pair((f"chosen{suffix}", f"rejected{suffix}"), NAMES)
    for name in PAIRED:
        for first, second, third in SIDES:
            if f"{name}{first}" in row and f"{name}{second}" in row and f"{name}{third}" not in row:
                return Pair((f"{name}{first}", f"{name}{second}"), (first, second))
    return None


def _recognises(row: Json) -> bool:
    return _pair_of(row) is not None


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    pair = _pair_of(row)
    if pair is None:
        raise BadRow(f"The record is {jsontext.describe(row)} without a pair of answers.", EXPECTED)
    record = hashlib.sha256(jsontext.canonical(row)).hexdigest()[:16]
    sides = [(f"`{column}`", _side(row, record, pair, place)) for place, column in enumerate(pair.columns)]
    yield from read_each(sides, lambda side: [_run(side, pair)])


def _side(row: dict[str, Json], record: str, pair: Pair, place: int) -> dict[str, Json]:
    """The row as one side has it: with its own answer and its own model, and without the other's answer."""
    ours, others = pair.sides[place], pair.sides[1 - place]
    side = {key: value for key, value in row.items() if key != pair.columns[1 - place]}
    for first, second in ((f"model_{ours}", f"model_{others}"), (f"{ours}_model", f"{others}_model")):
        if first in side:
            side["model"] = side.pop(first)
            side.pop(second, None)
    return {**side, COMPARED: {"pair": record, "side": ours}}


def _run(side: dict[str, Json], pair: Pair) -> TrajectoryRecord:
    (column,) = (name for name in pair.columns if name in side)
    answer = _said(side[column], "assistant")
    if not answer:
        raise BadRow(f"It is {jsontext.describe(side[column])} and no answer.", EXPECTED)
    asked, prompt = ([], []) if _is_whole(answer) else _prompt(side)
    if not prompt and not _is_whole(answer):
        raise BadRow("Nothing says what was asked.", EXPECTED)
    name = Columns(side).take(named, ("id", "idx", *NAMES_OF_CHAT))
    ours = side[COMPARED]["side"]
    tags = [text for text in listed(side.get("tags")) or [] if type(text) is str]
    beside = {key: value for key, value in side.items() if key not in (*asked, column)}
    beside["tags"] = [*tags, ours] if pair.sides == NAMES else tags
    if name:
        beside["id"] = f"{name}/{ours}"
    return chat_trajectory(Chat(beside, prompt + answer, ()))


def _is_whole(answer: list[Json]) -> bool:
    """Whether an answer begins with what was asked, as UltraFeedback's and the Arena's do."""
    return role_of(answer[0]) in ("user", "system")


def _prompt(side: dict[str, Json]) -> tuple[list[str], list[Json]]:
    """The columns that say what was asked, and what they say."""
    for name in ASKED:
        if said := _said(side.get(name), "user"):
            return with_subject(side, name, said)
    return [], []


def _said(value: Json, role: str) -> list[Json]:
    """Text, a message or several as messages; an empty list where it is none of them."""
    if type(value) is str and value.startswith("\n\nHuman:"):
        return _transcript(value)
    if role_of(value):
        return [value]
    entries = listed(value) or []
    if entries and role_of(entries[0]):
        return entries
    is_said = type(value) is str and (value or role == "assistant")  # who answers nothing has answered
    return [{"role": role, "content": value}] if is_said else []


def _transcript(text: str) -> list[Json]:
    """A chat as Anthropic's first data sets wrote it down."""
    _, *parts = TRANSCRIPT.split(text)
    roles = {"Human": "user", "Assistant": "assistant"}
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return [{"role": roles[speaker], "content": said.strip()} for speaker, said in pairs]


FORMAT = Format(
    name="judged-pairs",
    title="Pairs of answers",
    shape="`chosen` and `rejected`, or `response_a` and `response_b`, beside what was asked",
    recognises=_recognises,
    read=_read,
    general=True,
)
