"""Logs of Magentic-One teams (`log.jsonl`): agents' messages, one per line, between internal events.

All agents are one policy, each turn with its speaker's name. Prompts by a person, and the orchestrator's notes on the ending, are
context.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apps.ingest.files.raw_records import as_one
from apps.ingest.formats import Format, single_or_listed
from apps.ingest.normalization.conversation import Conversation
from apps.ingest.normalization.fields import count, mapping, text
from apps.ingest.records import BadRow, Json, TrajectoryRecord
from contract import jsontext

SHAPE = "lines with `source`, `message` and `type` “OrchestrationEvent”, “AgentEvent” or “WebSurferEvent”"
SAID = frozenset({"OrchestrationEvent", "AgentEvent", "WebSurferEvent"})
CALLED = "LLMCallEvent"
PEOPLE = frozenset({"user", "human", "userproxy", "orchestrator (userproxy)", "orchestrator (user)"})
TERMINALS = frozenset({"computerterminal", "executor"})
"""Agents that run code without asking a model."""
NOTES = "(termination condition)"


def _lines(row: Json) -> list[dict[str, Any]]:
    return [mapping(line) for line in (row if type(row) is list else [row])]


def _accepts(row: Json) -> bool:
    first = next(iter(_lines(row)), {})
    return text(first.get("type")) in SAID and {"source", "message"} <= first.keys()


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    conversation = Conversation()
    usage = {"prompt_tokens": 0, "completion_tokens": 0}
    for line in _lines(row):
        kind, source = text(line.get("type")), text(line.get("source"))
        if kind == CALLED:
            usage = {key: tokens + (count(line.get(key)) or 0) for key, tokens in usage.items()}
        if kind not in SAID:
            continue
        speaker = source.split(" (")[0]
        if speaker.lower() in TERMINALS:
            conversation.add({"role": "tool", "name": speaker, "content": line.get("message")})
        elif source.lower() in PEOPLE or source.endswith(NOTES):
            conversation.add({"role": "user", "content": line.get("message")})
        elif step := conversation.add({"role": "assistant", "name": speaker, "content": line.get("message")}):
            step.prompt_tokens, step.completion_tokens = (tokens or None for tokens in usage.values())
            step.info |= {"speaker": source} if source != speaker else {}
            usage = dict.fromkeys(usage, 0)
    if not conversation.steps:
        raise BadRow(f"The record is {jsontext.describe(row)} without messages from agents.", f"{SHAPE}.")
    yield conversation.trajectory()


FORMAT = Format(
    name="magentic-one",
    title="Magentic-One log",
    shape=SHAPE,
    keys=single_or_listed("type source message"),
    accepts=_accepts,
    read=_read,
    gather=as_one,
)
