"""OpenHands: evaluation rows (`output.jsonl`) and saved trajectories, as events of version 0 and of the agent SDK (version 1).

Events record what happened, not what the model was sent: answers are taken from the responses that version 0 stores beside actions,
and otherwise composed from thought and call. Internal events (states, recalls, condensations) are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from apps.ingest.formats import FEW, Format
from apps.ingest.normalization.chat import opening_of
from apps.ingest.normalization.columns import (
    INSTANCE,
    INSTRUCTION,
    NAME,
    POLICY,
    TASK,
    Columns,
    named,
    nonempty_text,
    succeeded,
)
from apps.ingest.normalization.conversation import Conversation, tool_schemas
from apps.ingest.normalization.fields import count, first_of, mapping, prompt_key, prompt_of, text
from apps.ingest.normalization.swe_bench import instance_environment
from apps.ingest.records import BadRow, Json, Message, Outcome, TaskRecord, TrajectoryRecord
from contract import jsontext

EXPECTED = "An object whose `history` is a list of events with `source`, or the list alone."
KINDS = ("SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "AgentErrorEvent")
HISTORIES = ("history", "trajectory")
"""Columns of events: in evaluations, and in feedback sent from the web page."""
MACHINERY = frozenset({"recall", "change_agent_state", "agent_state_changed", "condensation", "null", "pause", "stop"})
ASIDE = frozenset(
    {"thought", "security_risk", "confirmation_state", "is_confirmed", "hidden", "blocking", "keep_prompt"}
)
"""Action arguments that the model didn't write."""

PLACES = ("[].", *(f"{key}." for key in HISTORIES))
"""Key prefixes of events."""


def _events(row: Json) -> list[dict[str, Any]]:
    """The events of a row; the oldest files pair each action with its observation."""
    history = row if type(row) is list else first_of(mapping(row), *HISTORIES)
    if type(history) is not list:
        return []
    pairs = (entry if type(entry) is list else [entry] for entry in history)
    return [mapping(event) for event in chain.from_iterable(pairs)]


def _accepts(row: Json) -> bool:
    events = _events(row)
    if any(event.get("kind") in KINDS for event in events[:FEW]):  # updates of the state may come before them
        return True
    first = next(iter(events), {})
    return "source" in first and ("observation" in first or type(first.get("args")) is dict)


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    events = _events(row)
    if not events:
        raise BadRow(f"The record is {jsontext.describe(row)} without events.", EXPECTED)
    columns = Columns(mapping(row), HISTORIES)
    conversation = Conversation()
    tools: list[Json] = []
    emitted: set[str] = set()
    for event in events:
        tools = tools or tool_schemas(event.get("tools") or mapping(event.get("args")).get("tools"))
        for message in _sdk(event) if "kind" in event else _version_0(event, emitted):
            step = conversation.add(message)
            if step:
                usage = mapping(step.info.pop("usage", None))
                step.prompt_tokens = count(usage.get("prompt_tokens"))
                step.completion_tokens = count(usage.get("completion_tokens"))
    opening = opening_of(conversation)
    instance = columns.take(named, INSTANCE) or ""
    yield TrajectoryRecord(
        task=TaskRecord(
            key=instance or columns.take(named, TASK) or prompt_key(opening),
            instruction=columns.take(nonempty_text, ("instance.problem_statement", *INSTRUCTION)) or prompt_of(opening),
            environment=instance_environment(instance) if instance else "",
        ),
        steps=conversation.steps,
        closing=conversation.waiting,
        tools=tools,
        policy=columns.take(nonempty_text, POLICY) or _model(events),
        id=columns.take(named, NAME) or instance,
        outcome=Outcome(
            reward=columns.take_rewards(conversation.steps),
            success=succeeded(columns.row, columns),
            termination="error" if columns.row.get("error") else _ending(conversation),
        ),
        info={key: value for key, value in columns.rest().items() if key != "instance"},
    )


def _version_0(event: dict[str, Any], emitted: set[str]) -> Iterator[Message]:
    """The messages of an event; `emitted` holds the responses already emitted, by the id of their first call."""
    args, call = mapping(event.get("args")), mapping(event.get("tool_call_metadata"))
    kind = text(first_of(event, "action", "observation"))
    if kind in MACHINERY:
        return
    if "observation" in event:
        role = "tool" if call or event.get("cause") is not None else "user"
        yield {
            "role": role,
            "tool_call_id": call.get("tool_call_id"),
            "content": event.get("content"),
            "is_error": kind == "error" or None,
        }
    elif kind == "system" or event.get("source") != "agent":
        yield {"role": "system" if kind == "system" else "user", "content": _with_pictures(args)}
    else:
        yield from _acted(event, kind, args, call, emitted)


def _with_pictures(args: dict[str, Any]) -> Json:
    content = first_of(args, "content", "task")
    pictures = args.get("image_urls")
    if type(pictures) is not list or not pictures:
        return content
    return [
        {"type": "text", "text": text(content)},
        *({"type": "image_url", "image_url": {"url": url}} for url in pictures if type(url) is str),
    ]


def _acted(
    event: dict[str, Any], kind: str, args: dict[str, Any], call: dict[str, Any], emitted: set[str]
) -> Iterator[Message]:
    response = mapping(call.get("model_response"))
    choices = response.get("choices")
    answer = mapping(choices[0]).get("message") if type(choices) is list and choices else None
    name = text(response.get("id"))
    if type(answer) is dict and answer.get("role") == "assistant":
        if not name or name not in emitted:
            yield {**answer, "usage": response.get("usage")}
        emitted.add(name)
    elif kind == "message":
        yield {"role": "assistant", "content": text(args.get("content"))}
    else:
        arguments = {key: value for key, value in args.items() if key not in ASIDE and value not in (None, "")}
        function = {"name": text(call.get("function_name")) or kind or "action", "arguments": arguments}
        thought = text(args.get("thought")) or None
        calls = [{"id": call.get("tool_call_id"), "function": function}]
        yield {"role": "assistant", "content": thought, "tool_calls": calls}


def _sdk(event: dict[str, Any]) -> Iterator[Message]:
    kind = event.get("kind")
    if kind == "SystemPromptEvent":
        prompt = event.get("system_prompt")
        yield {"role": "system", "content": mapping(prompt).get("text", prompt)}
    elif kind == "MessageEvent":
        entry = mapping(event.get("llm_message"))
        yield {**entry, "role": entry.get("role") or ("assistant" if event.get("source") == "agent" else "user")}
    elif kind == "ActionEvent":
        yield from _called(event)
    elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        observation = mapping(event.get("observation"))
        content = first_of(observation, "content", "output", "text")
        failed = kind != "ObservationEvent" or observation.get("is_error") is True
        yield {
            "role": "tool",
            "tool_call_id": event.get("tool_call_id"),
            "content": first_of(event, "error", "rejection_reason") if content is None else content,
            "is_error": failed or None,
        }


def _called(event: dict[str, Any]) -> Iterator[Message]:
    """Thought and call. Further calls of the same answer follow without a thought, so they are emitted as calls alone."""
    action = mapping(event.get("action"))
    plain = {
        "id": event.get("tool_call_id"),
        "name": text(event.get("tool_name")) or text(action.get("kind")) or "action",
        "arguments": {key: value for key, value in action.items() if key != "kind" and value is not None},
    }
    call = mapping(event.get("tool_call")) or plain
    if event.get("thought") or event.get("reasoning_content"):
        yield {
            "role": "assistant",
            "content": event.get("thought"),
            "reasoning_content": event.get("reasoning_content"),
            "tool_calls": [call],
        }
    else:
        yield {"role": "function_call", "content": call}


def _model(events: list[dict[str, Any]]) -> str | None:
    """The model named in a response: saved trajectories name it nowhere else."""
    models = (text(mapping(mapping(e.get("tool_call_metadata")).get("model_response")).get("model")) for e in events)
    return next(filter(None, models), None)


def _ending(conversation: Conversation) -> str:
    calls = conversation.steps[-1].message.get("tool_calls") if conversation.steps else None
    return "finish" if calls and calls[-1]["function"]["name"] == "finish" else ""


FORMAT = Format(
    name="openhands",
    title="OpenHands events",
    shape="`history`, a list of events with `source` and `action`, `observation` or `kind`; or the list alone",
    keys=(
        *(f"{key}kind" for key in PLACES),
        *(f"{key}source {key}{beside}" for key in PLACES for beside in ("args", "observation")),
    ),
    accepts=_accepts,
    read=_read,
)
