"""ShareGPT conversations: `{"conversations": [{"from": "human", "value": …}, …]}`, with tool calls as LLaMA-Factory writes them."""

from __future__ import annotations

from collections.abc import Iterator

from apps.trajectories import jsontext
from apps.trajectories.fields import required_list, text
from apps.trajectories.formats import Format
from apps.trajectories.formats.openai_chat import USED, chat_trajectory
from apps.trajectories.records import BadRow, Json, Message, TrajectoryRecord

SPEAKERS = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "model", "ai", "bot"), "assistant"),
    **dict.fromkeys(("observation", "tool", "function_response", "tool_response", "ipython"), "tool"),
    "system": "system",
    "function_call": "function_call",
    "tool_call": "function_call",
}
EXPECTED = 'Each turn is {"from": …, "value": …} with `from` one of ' + ", ".join(SPEAKERS) + "."


def _recognises(row: Json) -> bool:
    if type(row) is not dict or "chosen" in row or "rejected" in row:
        return False
    turns = row.get("conversations") or row.get("conversation")
    return type(turns) is list and bool(turns) and type(turns[0]) is dict and "from" in turns[0] and "value" in turns[0]


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not dict:
        raise BadRow(f"The record is {jsontext.describe(row)}.", "An object with `conversations`.")
    turns = required_list(
        row, "conversations" if "conversations" in row or "conversation" not in row else "conversation"
    )
    messages = [_message(turn) for turn in turns]
    if system := text(row.get("system")):
        messages.insert(0, {"role": "system", "content": system})
    if not messages:
        raise BadRow("`conversations` is empty.", EXPECTED)
    yield chat_trajectory(row, messages, used=USED | {"system"})


def _message(turn: Json) -> Message:
    if type(turn) is not dict:
        raise BadRow(f"A turn is {jsontext.describe(turn)}.", EXPECTED)
    role = SPEAKERS.get(text(turn.get("from")).lower())
    if role is None:
        raise BadRow(f"A turn is from “{text(turn.get('from'))[:60]}”.", EXPECTED)
    value = turn.get("value")
    if role != "function_call":
        return {"role": role, "content": value}
    calls = value
    if type(value) is str:
        try:
            calls = jsontext.loads(value.encode("utf-8", "surrogatepass"))
        except jsontext.UnreadableJSON:
            raise BadRow("A function call's value is not JSON.", 'Such as {"name": …, "arguments": {…}}.') from None
    return {"role": "assistant", "content": None, "tool_calls": calls if type(calls) is list else [calls]}


FORMAT = Format(
    name="sharegpt",
    title="ShareGPT",
    shape="`conversations`, a list of turns with `from` and `value`",
    recognises=_recognises,
    read=_read,
)
