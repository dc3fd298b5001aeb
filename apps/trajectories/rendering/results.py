"""Which messages after a step are its results, and which call each result answers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from apps.trajectories.rendering.blocks import note
from apps.trajectories.rendering.calls import CallView
from apps.trajectories.rendering.messages import Messages, as_list, content_of, is_failed, message_blocks, role_of

ERROR_CHARS = 2_000
"""How far into a result an error is searched for, to avoid showing it twice."""


def results_and_rest(kind: str, following: Messages) -> tuple[list[tuple[int, Any]], list[tuple[int, Any]]]:
    """The results of a step of this stored kind, and the other messages that follow it, with their positions. Agents that write commands as text get
    results as user messages.
    """
    messages = list(enumerate(as_list(following)))
    role = "tool" if any(role_of(message) == "tool" for _, message in messages) or kind != "tool" else "user"
    return [pair for pair in messages if role_of(pair[1]) == role], [
        pair for pair in messages if role_of(pair[1]) != role
    ]


def with_results(
    calls: list[CallView], results: list[tuple[int, Any]], url: str, error: Any, elsewhere: set[str]
) -> tuple[list[CallView], list[tuple[int, Any]]]:
    """Assign each result to its call, by id; results without a known id go to calls without one, in order. Results that report the step's
    `error`, or failure themselves, are marked as failed. `elsewhere`: ids of calls that aren't among these."""
    is_ours = {i: not isinstance(m, dict) or m.get("tool_call_id") not in elsewhere for i, m in results}
    waiting = {i: message for i, message in results if is_ours[i]}
    matched: dict[int, list[tuple[int, Any]]] = {}
    for call_index, call in enumerate(calls):
        own_results = [
            pair
            for pair in waiting.items()
            if call.id and isinstance(pair[1], dict) and pair[1].get("tool_call_id") == call.id
        ]
        matched[call_index] = own_results
        for index, _ in own_results:
            del waiting[index]
    for call_index in range(len(calls)):
        if not matched[call_index] and waiting:
            index = next(iter(waiting))
            matched[call_index] = [(index, waiting.pop(index))]
    answered = [
        replace(
            call,
            results=[
                block
                for i, message in matched[call_index]
                for block in message_blocks(message, f"after.{i}", url, call.kind) or [note("Nothing")]
            ],
            failed=any(is_failed(message) or shows_error(message, error) for _, message in matched[call_index]),
        )
        for call_index, call in enumerate(calls)
    ]
    return answered, [(i, message) for i, message in results if i in waiting or not is_ours[i]]


def shows_error(message: Any, error: Any) -> bool:
    """Whether a message contains the error verbatim, as text or inside JSON, near its beginning."""
    content = content_of(message)
    if not isinstance(error, str) or not error or not isinstance(content, str):
        return False
    shown = content[:ERROR_CHARS]
    return error in shown or json.dumps(error, ensure_ascii=False)[1:-1] in shown
