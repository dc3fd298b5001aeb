"""ShareGPT conversations: `{"conversations": [{"from": "human", "value": …}, …]}`, with tool calls as LLaMA-Factory writes them."""

from __future__ import annotations

from collections.abc import Iterator

from apps.ingest.formats import Format
from apps.ingest.normalization.chat import Chat, chat_trajectory
from apps.ingest.normalization.fields import required_list, text
from apps.ingest.normalization.roles import SPEAKERS, role_of
from apps.ingest.records import BadRow, Json, Message, TrajectoryRecord
from contract import jsontext

EXPECTED = 'Each turn is {"from": …, "value": …} with `from` one of ' + ", ".join(SPEAKERS) + "."


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", "An object with `conversations`.")
    key = "conversations" if "conversations" in row or "conversation" not in row else "conversation"
    turns = [_turn(entry) for entry in required_list(row, key)]
    if not turns:
        raise BadRow("`conversations` is empty.", EXPECTED)
    yield chat_trajectory(Chat(row, turns, (key,)))


def _turn(entry: Json) -> Message:
    if type(entry) is not dict:
        raise BadRow(f"A turn is {jsontext.describe(entry)}.", EXPECTED)
    if not role_of(entry):
        raise BadRow(f"A turn is from “{text(entry.get('from'))[:60]}”.", EXPECTED)
    return entry


FORMAT = Format(
    name="sharegpt",
    title="ShareGPT",
    shape="`conversations`, a list of turns with `from` and `value`",
    keys=("conversations.from conversations.value", "conversation.from conversation.value"),
    read=_read,
    yields_to=("judged-pairs",),
)
