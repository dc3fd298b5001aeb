"""Logs of Inspect (UK AI Security Institute): one object with `eval`, which describes the evaluation, and `samples`, each one trajectory.

`.eval` archives hold the same in pieces, which `inspect_archive` joins. Texts stored separately (“attachment://…”) are put back.
The first score is the outcome: Inspect's C and I mean correct and incorrect, and numbers are rewards. Written for log schema version 2;
later versions that keep the fields used here work too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.formats import Format
from apps.ingest.normalization.conversation import Conversation, tool_schemas
from apps.ingest.normalization.fields import (
    count,
    mapping,
    number,
    optional_list,
    prompt_of,
    required_list,
    reward_of,
    text,
)
from apps.ingest.records import BadRow, Json, Outcome, TaskRecord, TrajectoryRecord, numbered, read_each
from contract import jsontext

EXPECTED = "An object with `eval` and `samples`, each with `id`, `epoch` and `messages`."
GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partially correct, incorrect, no answer."""
ATTACHED = "attachment://"
MAX_ATTACHED = 64 << 20
"""Characters of a sample's attachments, counted per reference: a megabyte that is referenced ten thousand times is ten gigabytes."""
OF_MESSAGE = ("id", "source", "role", "model", "metadata", "internal")
OF_SAMPLE = (
    "epoch",
    "scores",
    "score",
    "metadata",
    "model_usage",
    "total_time",
    "working_time",
    "error",
    "limit",
    "uuid",
)


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", EXPECTED)
    details = mapping(row.get("eval"))
    samples = optional_list(row, "samples")
    if not samples:
        raise BadRow("The log holds no samples: it was written without them, or nothing was run.", EXPECTED)
    yield from read_each(numbered("Sample", samples), lambda entry: [_trajectory(mapping(entry), details)])


def _trajectory(sample: dict[str, Any], details: dict[str, Any]) -> TrajectoryRecord:
    attached = _Attachments(mapping(sample.get("attachments")))
    calls = _calls_of_the_model(sample)
    conversation = Conversation()
    for entry in required_list(sample, "messages"):
        _add(conversation, attached.resolve(entry), calls)
    prompt = sample.get("input")
    # The first logs had one score per sample.
    reward, success = _outcome(mapping(sample.get("scores")) or {"score": sample.get("score")})
    name = text(sample.get("id"))
    return TrajectoryRecord(
        task=TaskRecord(
            key=name,
            instruction=attached.resolve(prompt) if type(prompt) is str else prompt_of(conversation.opening),
            environment=text(details.get("task")),
            success_check={"target": sample["target"]} if sample.get("target") else {},
        ),
        steps=conversation.steps,
        closing=conversation.waiting,
        tools=tool_schemas(next((call["tools"] for call in calls.values() if call.get("tools")), [])),
        policy=text(details.get("model")) or None,
        id=text(sample.get("uuid")) or f"{text(details.get('run_id'))}/{name}/{text(sample.get('epoch'))}",
        outcome=Outcome(
            reward=reward,
            success=success,
            termination=_ending(sample),
        ),
        tags=[tag for tag in optional_list(details, "tags") if type(tag) is str],
        info={
            **{key: sample[key] for key in OF_SAMPLE if sample.get(key)},
            **{key: details[key] for key in ("run_id", "created") if details.get(key)},
        },
    )


def _add(conversation: Conversation, entry: Json, calls: dict[str, dict[str, Any]]) -> None:
    details = mapping(entry)
    if not details:
        conversation.add(entry)  # raises the error for it
        return
    message = {key: value for key, value in details.items() if key not in OF_MESSAGE and value is not None}
    message["role"] = details.get("role")
    if message["role"] == "tool":
        failed = mapping(message.pop("error", None))
        message |= {"name": message.pop("function", None), "is_error": bool(failed)}
        message["content"] = message.get("content") or text(failed.get("message"))
    elif message["role"] == "assistant" and details.get("source") == "input":
        message["loss"] = False  # part of the sample's prompt
    step = conversation.add(message)
    call = calls.get(text(details.get("id"))) if step else None
    if step and call:
        usage = mapping(mapping(call.get("output")).get("usage"))
        cached = [usage.get("input_tokens_cache_read"), usage.get("input_tokens_cache_write")]
        prompt = [tokens for amount in (usage.get("input_tokens"), *cached) if (tokens := count(amount)) is not None]
        step.prompt_tokens = sum(prompt) if prompt else None
        step.completion_tokens = count(usage.get("output_tokens"))
        step.seconds = number(call.get("working_time"))


def _calls_of_the_model(sample: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The log's model-call events, by the id of the resulting message."""
    events_by_message: dict[str, dict[str, Any]] = {}
    for event in map(mapping, optional_list(sample, "events")):
        if event.get("event") == "model":
            choices = mapping(event.get("output")).get("choices")
            first = mapping(mapping(choices[0]).get("message")) if type(choices) is list and choices else {}
            events_by_message[text(first.get("id"))] = event
    return events_by_message


class _Attachments:
    """Texts that a sample stores separately and references."""

    def __init__(self, texts: dict[str, Any]) -> None:
        self.texts = texts
        self.room = MAX_ATTACHED

    def resolve(self, value: Json) -> Json:
        """The value with every attachment in place, and images in the form of chat messages. Raises BadRow."""
        if type(value) is str:
            return self._text(value) if value.startswith(ATTACHED) else value
        if type(value) is list:
            return [self.resolve(item) for item in value]
        if type(value) is dict:
            if value.get("type") == "image" and type(value.get("image")) is str:
                return {"type": "image_url", "image_url": {"url": self.resolve(value["image"])}}
            return {key: self.resolve(item) for key, item in value.items()}
        return value

    def _text(self, name: str) -> str:
        attached = self.texts.get(name.removeprefix(ATTACHED))
        if type(attached) is not str:
            return name
        self.room -= len(attached)
        if self.room < 0:
            reason = f"Its attachments, counted once per reference, have more than {MAX_ATTACHED:,} characters."
            raise BadRow(reason, "Attachments that exist, and fit where they are referenced.")
        return attached


def _outcome(scores: dict[str, Any]) -> tuple[float | None, bool | None]:
    """Reward and success from the first score that has either."""
    for score in scores.values():
        value = mapping(score).get("value")
        if type(value) is str and value in GRADES:
            return GRADES[value], None if value == "P" else value == "C"
        if type(value) is bool:
            return float(value), value
        if (reward := reward_of(value)) is not None:
            return reward, None
    return None, None


def _ending(sample: dict[str, Any]) -> str:
    if limit := text(mapping(sample.get("limit")).get("type")):
        return f"limit: {limit}"
    if sample.get("error"):
        return "error"
    choices = mapping(sample.get("output")).get("choices")
    reason = text(mapping(choices[0]).get("stop_reason")) if type(choices) is list and choices else ""
    return "" if reason == "tool_calls" else reason  # the reason that a turn ended, not the trajectory


FORMAT = Format(
    name="inspect",
    title="Inspect evaluation log (.json, .eval)",
    shape="an object with `eval` (with `task` and `model`) and `samples`",
    keys=("eval.model eval.task samples", "eval.model eval.task status"),
    read=_read,
)
