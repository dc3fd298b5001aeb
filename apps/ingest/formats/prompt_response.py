"""A question and its answer in two columns, as in instruction data sets and rollout dumps: a trajectory of one step.

An answer may be calls alone: a list of `{"name", "arguments"}`, as in function-calling data sets. Several answers are several
trajectories of one task; lists of the same length beside them (`rewards`, `models`) apply to each. `completions` beside `labels` are the
steps of one answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from apps.ingest.formats import Format
from apps.ingest.normalization.chat import Chat, chat_trajectory
from apps.ingest.normalization.columns import PROMPTS, listed, nonempty_text, with_subject
from apps.ingest.normalization.fields import mapping
from apps.ingest.normalization.roles import role_of
from apps.ingest.normalization.transcripts import transcript
from apps.ingest.records import BadRow, Json, TrajectoryRecord, numbered, read_each
from contract import jsontext

ANSWERS = ("completion", "response", "output", "answers", "generation", "generated_text", "prediction")
SEVERAL = ("completions", "responses", "generations", "outputs", "samples", "candidates", "answers")
WORDS = ("answer", "text", "content")
"""Keys of the text in answers that are objects; `wrapped` reads those under one of ANSWERS."""
RUNS = (
    *("messages", "conversation", "conversations", "trajectory", "traj", "steps", "turns", "events"),
    *("intermediate_steps", "transitions", "chat_history", "inference_log"),
)
"""Columns that hold a trajectory: if one of them isn't understood, question and answer aren't the whole chat."""
EXPECTED = f"One of {', '.join(PROMPTS)} and one of {', '.join(ANSWERS)}, as text or as chat messages."


def _accepts(row: Json) -> bool:
    if type(row) is not dict or "chosen" in row or "rejected" in row:
        return False
    if any(type(first) in (dict, list) for name in RUNS for first in (listed(row.get(name)) or ())[:1]):
        return False
    return bool(
        _messages_in(row, PROMPTS, "user")[1] and (_messages_in(row, ANSWERS, "assistant")[1] or any(_each(row)))
    )


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", f"An object. {EXPECTED}")
    is_one = _messages_in(row, ANSWERS, "assistant")[1] or _labeled_steps(row) or not any(_each(row))
    yield from _trajectory(row) if is_one else read_each(numbered("Answer", _each(row)), _trajectory)


def _trajectory(row: dict[str, Json]) -> Iterator[TrajectoryRecord]:
    prompt_column, prompt = _messages_in(row, PROMPTS, "user")
    answered, answer = _messages_in(row, ANSWERS, "assistant")
    labels = _labeled_steps(row)
    if labels:
        answer = [{"role": "assistant", "content": step, "label": label} for step, label in labels]
        answered = "completions"
    if not prompt or not answer:
        raise BadRow(f"There is no {'answer' if prompt else 'prompt'}.", EXPECTED)
    columns, prompt = with_subject(row, prompt_column, prompt)
    used_keys = [*columns, answered, *(["labels"] if labels else [])]
    if earlier := _earlier(row):
        prompt = earlier + prompt
        used_keys.append("history")
    yield chat_trajectory(Chat(row, answer, tuple(used_keys), prompt=prompt))


def _earlier(row: dict[str, Json]) -> list[Json]:
    """Earlier turns, as instruction data sets store them: pairs of question and answer."""
    pairs = listed(row.get("history")) or []
    if not all(type(pair) is list and len(pair) == 2 and all(type(value) is str for value in pair) for pair in pairs):
        return []
    return [
        {"role": role, "content": content}
        for pair in pairs
        for role, content in zip(("user", "assistant"), pair, strict=True)
    ]


def _labeled_steps(row: dict[str, Json]) -> list[tuple[str, Json]]:
    """The steps of one answer with their labels, as in TRL's process reward data; none if `completions` are several answers."""
    steps, labels = listed(row.get("completions")) or [], listed(row.get("labels")) or []
    if len(steps) != len(labels) or not all(type(step) is str for step in steps):
        return []
    return list(zip(steps, labels, strict=True))


def _each(row: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """A row for each of several answers; none if there aren't several."""
    for name in SEVERAL:
        answers = listed(row.get(name)) or []
        if path := _place_of_words(answers):
            shared = {key: value for key, value in row.items() if key != name}
            yield from ({**shared, **_without(answer, path), "response": answer[path]} for answer in answers)
            return
        if answers and all(type(answer) is str or _is_chat(answer) for answer in answers):
            apart = (*PROMPTS, "tools", "tags", name)
            parallel = {k: v for k, v in row.items() if k not in apart and type(v) is list and len(v) == len(answers)}
            shared = {key: value for key, value in row.items() if key not in parallel and key != name}
            details = ({key.removesuffix("s"): v[path] for key, v in parallel.items()} for path in range(len(answers)))
            yield from (
                {**shared, **fields, "response": answer} for answer, fields in zip(answers, details, strict=True)
            )
            return


def _is_chat(answer: Json) -> bool:
    return type(answer) is list and bool(answer) and bool(role_of(answer[0]))


def _place_of_words(answers: list[Json]) -> str:
    """The key that holds each answer's text; "" if the answers aren't such objects."""
    if not answers or not all(type(answer) is dict for answer in answers):
        return ""
    return next((key for key in WORDS if all(nonempty_text(answer.get(key)) for answer in answers)), "")


def _without(answer: dict[str, Json], path: str) -> dict[str, Json]:
    return {key: value for key, value in answer.items() if key != path}


def _messages_in(row: dict[str, Json], names: tuple[str, ...], role: str) -> tuple[str, list[Json]]:
    """The first column with messages, and the messages; an empty list if there is none."""
    for name in names:
        value = row.get(name)
        entries = listed(value) or []
        if entries and role_of(entries[0]):
            return name, entries
        if role == "assistant" and entries and all(type(mapping(call).get("name")) is str for call in entries):
            return name, [{"role": role, "content": None, "tool_calls": entries}]
        is_several = name in SEVERAL and _place_of_words(entries)
        if type(value) is str and value and not is_several:
            return name, transcript(value) or [{"role": role, "content": value}]
    return "", []


FORMAT = Format(
    name="prompt-response",
    title="Prompts and responses",
    shape="a prompt (`prompt`, `instruction`, `input`, `question`, …) and an answer (`response`, `output`, …)",
    keys=tuple(f"{prompt} {answer}" for prompt in PROMPTS for answer in (*ANSWERS, *SEVERAL)),
    accepts=_accepts,
    read=_read,
    general=True,
    yields_to=("judged-pairs", "openai-chat"),
)
