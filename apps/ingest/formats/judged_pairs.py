"""Two answers side by side, as in preference data sets: two trajectories of one task.

Data sets encode the preferred side differently (1 and 2, 0 and 1, names), so it isn't guessed. The columns that hold it are kept
with both trajectories, for a researcher who maps them to judgments; `chosen` and `rejected` also become tags.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from apps.ingest.formats import Format
from apps.ingest.normalization.chat import NAMES_OF_CHAT, Chat, chat_trajectory
from apps.ingest.normalization.columns import REWARD, REWARDS, SUCCESS, Columns, inside, listed, named, with_subject
from apps.ingest.normalization.fields import mapping
from apps.ingest.normalization.roles import role_of
from apps.ingest.normalization.transcripts import transcript
from apps.ingest.records import BadRow, Json, TrajectoryRecord, read_each
from contract import jsontext

COMPARED = "compared"
"""Info key of both trajectories: `pair`, a digest of the record, and `side`, which of its answers this is."""
NAMES = ("chosen", "rejected")
PAIRED = (
    *("response", "response_", "output", "output_", "completion", "completion_", "answer", "answer_"),
    *("conversation_", "human_ref_", "trajectory_"),
)
IN_ONE = "summary"
SIDES = (("a", "b", "c"), ("A", "B", "C"), ("0", "1", "2"), ("1", "2", "3"), ("j", "k", "l"))
"""Names of the two sides, as in `response_a` and `response_b`; a column with the third name means more than two answers."""
MODELS = ("model_{}", "{}_model", "{}-model", "generator_{}", "response_{}_source")
"""Patterns of the columns that name the model of a side."""
ASKED = (
    *("prompt", "messages", "conversations", "conversation", "context", "history"),
    *("instruction", "question", "query", "input", "post", "info.post"),
)
OF_PAIR = frozenset((*REWARD, *REWARDS, *SUCCESS, "target"))
"""Columns that would be a trajectory's outcome, but beside a pair are of neither side."""
EXPECTED = "Question (`prompt`, as text or messages) beside `chosen` and `rejected`, or `response_a` and `response_b`."


class Pair(NamedTuple):
    """The columns of the two answers, and the name of each side."""

    columns: tuple[str, str]
    sides: tuple[str, str]


def _pair_of(row: Json) -> Pair | None:
    if type(row) is not dict:
        return None
    if _in_one_column(row):
        return Pair((f"{IN_ONE}_0", f"{IN_ONE}_1"), ("0", "1"))
    for suffix in ("", "_messages"):
        if all(f"{side}{suffix}" in row for side in NAMES):
            return Pair((f"chosen{suffix}", f"rejected{suffix}"), NAMES)
    for name in PAIRED:
        for first, second, third in SIDES:
            if f"{name}{first}" in row and f"{name}{second}" in row and f"{name}{third}" not in row:
                return Pair((f"{name}{first}", f"{name}{second}"), (first, second))
    return None


def _in_one_column(row: dict[str, Json]) -> list[dict[str, Json]]:
    """The two answers if one column holds both, as in OpenAI's summary comparisons."""
    answers = row.get("summaries")
    both = [mapping(answer) for answer in answers] if type(answers) is list and len(answers) == 2 else []
    return both if all(type(answer.get("text")) is str for answer in both) else []


def _rows(row: dict[str, Json], pair: Pair) -> Iterable[dict[str, Json]]:
    """The record as one row per pair, with each answer in its own column."""
    if both := _in_one_column(row):
        shared = {key: value for key, value in row.items() if key != "summaries"}
        models = {f"model_{index}": answer["policy"] for index, answer in enumerate(both) if "policy" in answer}
        return [{**shared, **models, **{name: answer["text"] for name, answer in zip(pair.columns, both, strict=True)}}]
    first, second = (row[name] for name in pair.columns)
    if _are_texts(first) and _are_texts(second) and not _are_texts(listed(row.get("prompt"))):
        # Several good and several bad answers, each a complete text.
        return ({**row, pair.columns[0]: good, pair.columns[1]: bad} for good in first for bad in second)
    return [row]


def _are_texts(value: Json) -> bool:
    return type(value) is list and bool(value) and all(type(item) is str for item in value)


def _accepts(row: Json) -> bool:
    return _pair_of(row) is not None


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    pair = _pair_of(row)
    if pair is None:
        raise BadRow(f"The record is {jsontext.describe(row)} without a pair of answers.", EXPECTED)
    yield from read_each(_sides(row, pair), lambda side: [_trajectory(side, pair)])


def _sides(row: dict[str, Json], pair: Pair) -> Iterator[tuple[str, dict[str, Json]]]:
    for pair_row in _rows(row, pair):
        record = hashlib.sha256(jsontext.canonical(pair_row)).hexdigest()[:16]
        yield from ((f"`{column}`", _side(pair_row, record, pair, index)) for index, column in enumerate(pair.columns))


def _side(row: dict[str, Json], record: str, pair: Pair, index: int) -> dict[str, Json]:
    """The row for one side: its own answer and model, without the other's."""
    own_columns, other_columns = pair.sides[index], pair.sides[1 - index]
    side = {key: value for key, value in row.items() if key != pair.columns[1 - index]}
    for spelling in MODELS:
        if (first := spelling.format(own_columns)) in side:
            side["model"] = side.pop(first)
            side.pop(spelling.format(other_columns), None)
    return {**side, COMPARED: {"pair": record, "side": own_columns}}


def _trajectory(side: dict[str, Json], pair: Pair) -> TrajectoryRecord:
    (column,) = (name for name in pair.columns if name in side)
    if dialogue := _turns(side.get("prompt"), side[column]):
        side = {key: value for key, value in side.items() if key != "prompt"} | {column: dialogue}
    answer = _messages_in(side[column], "assistant")
    if not answer:
        raise BadRow(f"It is {jsontext.describe(side[column])}, not an answer.", EXPECTED)
    prompt_columns, prompt = ([], []) if _is_whole(answer) else _prompt(side)
    if not prompt and not _is_whole(answer):
        raise BadRow("There is no prompt.", EXPECTED)
    name = Columns(side).take(named, ("id", "idx", *NAMES_OF_CHAT))
    side_name = side[COMPARED]["side"]
    tags = [text for text in listed(side.get("tags")) or [] if type(text) is str]
    extra = {key: value for key, value in side.items() if key not in (*prompt_columns, column)}
    extra["tags"] = [*tags, side_name] if pair.sides == NAMES else tags
    if name:
        extra["id"] = f"{name}/{side_name}"
    of_pair = {key: extra.pop(key) for key in [*extra] if key in OF_PAIR}
    record = chat_trajectory(Chat(extra, answer, (), prompt=prompt))
    record.info |= of_pair
    return record


def _turns(prompts: Json, answers: Json) -> list[Json]:
    """A chat whose turns are in two parallel lists, user messages and answers; empty if the data isn't like that."""
    prompt_texts, answered = listed(prompts) or [], listed(answers) or []
    if len(prompt_texts) != len(answered) or not all(type(prompt) is str for prompt in prompt_texts):
        return []
    if not all(answer is None or type(answer) is str for answer in answered):
        return []
    pairs = zip(prompt_texts, answered, strict=True)
    return [
        {"role": role, "content": content or ""}
        for pair in pairs
        for role, content in zip(("user", "assistant"), pair, strict=True)
    ]


def _is_whole(answer: list[Json]) -> bool:
    """Whether an answer includes the prompt, as in UltraFeedback and the Arena."""
    return role_of(answer[0]) in ("user", "system")


def _prompt(side: dict[str, Json]) -> tuple[list[str], list[Json]]:
    """The columns of the prompt, and its messages."""
    for name in ASKED:
        question = inside(side, name)
        if messages := _messages_in(
            mapping(question).get("full_text", question), "user"
        ):  # WebGPT's questions are objects
            return with_subject(side, name, messages)
    return [], []


def _messages_in(value: Json, role: str) -> list[Json]:
    """Text, one message, or several as a list of messages; an empty list for anything else."""
    if type(value) is str and (written := transcript(value)):
        return written
    if role_of(value):
        return [value]
    entries = listed(value) or (listed(f"[{value}]") if type(value) is str and value.startswith("{") else []) or []
    # Text in a cell is parsed only if it names its speaker explicitly: an answer may be a call in JSON, which also has a `type`.
    is_plain = type(value) is not str or not {"role", "from"}.isdisjoint(mapping(entries[0] if entries else None))
    if entries and is_plain and role_of(entries[0]):
        return entries
    is_text = type(value) is str and (value or role == "assistant")  # an empty answer is an answer
    return [{"role": role, "content": value}] if is_text else []


FORMAT = Format(
    name="judged-pairs",
    title="Pairs of answers",
    shape="`chosen` and `rejected`, or `response_a` and `response_b`, beside what was asked",
    keys=(
        "summaries.text",
        "chosen rejected",
        "chosen_messages rejected_messages",
        *(f"{name}{one} {name}{two}" for name in PAIRED for one, two, _ in SIDES),
    ),
    accepts=_accepts,
    read=_read,
    general=True,
)
