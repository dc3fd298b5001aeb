"""Process labels in TRL's stepwise supervision form: a prompt, a completion for each step, and a label for each.

The form holds text, so chats are rendered as text: everything before the first turn is the prompt; a completion is what came back since the
previous turn, if anything, and the turn itself. It has no label for unjudged steps: a row ends before the first one that the
first error doesn't tell about. A neutral step counts as correct, as in Lightman et al. (2023).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TypedDict

from contract.messages import Message, is_turn, text_of
from contract.rows.single import ProcessLabelsRow
from contract.values import JsonObject, mapping


class StepwiseRow(TypedDict):
    """A row for TRL's process reward model trainer."""

    prompt: str
    completions: list[str]
    labels: list[bool]


def stepwise(row: JsonObject) -> StepwiseRow | None:
    """Converts a row of process labels; None if its first step isn't labeled. Raises ValueError."""
    labeled = ProcessLabelsRow.from_json(row)
    labels = _labels(labeled.step_labels, labeled.first_error)
    if not labels:
        return None
    prompt, completions = _pieces(labeled.messages)
    return {"prompt": prompt, "completions": completions[: len(labels)], "labels": labels}


def _labels(step_labels: Sequence[float | None], first_error: int | None) -> list[bool]:
    labels: list[bool] = []
    for turn, label in enumerate(step_labels):
        if label is None and first_error is not None and first_error >= 0:
            label = 1.0 if turn < first_error else -1.0 if turn == first_error else None
        if label is None and first_error == -1:
            label = 1.0
        if label is None:
            break
        labels.append(label >= 0)
    return labels


def _pieces(messages: Sequence[Message]) -> tuple[str, list[str]]:
    before: list[str] = []
    prompt: list[str] | None = None
    completions: list[str] = []
    for message in messages:
        if not is_turn(message):
            before.append(text_of(message.get("content")))
            continue
        if prompt is None:
            prompt, before = before, []
        completions.append("\n\n".join(filter(None, [*before, _turn(message)])))
        before = []
    return "\n\n".join(filter(None, prompt or [])), completions


def _turn(message: Message) -> str:
    calls = [mapping(call).get("function") for call in message.get("tool_calls") or []]
    return "\n".join(
        filter(
            None,
            [
                str(message.get("reasoning_content") or ""),
                text_of(message.get("content")),
                *(json.dumps(call, ensure_ascii=False) for call in calls if call),
            ],
        )
    )
