r"""Normalizes chat messages for rows, in the format that TRL and chat templates expect. Equal messages become equal bytes.

- Tool-call arguments are objects, which chat templates expect; a string that holds a JSON object is decoded to that object. If they aren't
  a JSON object, contain a number that JSON can't represent in 64 bits, or are nested too deeply, they stay the string that the policy wrote.
- Content is always text: typed parts are joined, and a non-text part is named in brackets, except beside an assistant's text, since the policy
  didn't write that name. `developer` messages become `system` messages, which every chat template supports.
- `tools` is one JSON string. As a column of structs, Arrow would merge the schemas of different tools into one with nulls.
- Assistant messages that the policy didn't write, which were context of its turns, have OpenAI's mark `"weight": 0`.
- NUL characters stay. Lone surrogates, which no tokenizer can encode, become U+FFFD unless the recipe keeps them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from django.db import connection, transaction
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from contract import jsontext

Json = Any
LONG_NUMBER = re.compile(r"\d{19,}")
SURROGATE = re.compile("[\ud800-\udfff]")
PLAIN = ["role", "content"]
"""Keys of a message that is written unchanged."""
CALL = b'"tool_call'
"""Prefix of the keys that hold tool calls and their ids."""


class Turn(NamedTuple):
    """One assistant turn as encoded messages: the messages before it, and its own."""

    context: list[bytes]
    message: bytes


def alike(one: bytes, other: bytes) -> bool:
    """Whether two encoded messages are equal except for tool-call ids."""
    return one == other or (CALL in one and CALL in other and _without_ids(one) == _without_ids(other))


def _without_ids(message: bytes) -> bytes:
    without_ids = jsontext.loads(message)
    without_ids.pop("tool_call_id", None)
    for call in without_ids.get("tool_calls", []):
        del call["id"]
    return encode(without_ids, keep_surrogates=True)


def read_turns(steps: bytes, *, keep_surrogates: bool = False) -> list[Turn]:
    """A trajectory's stored steps, a JSON list of [context, message], as turns of encoded messages."""
    return [
        Turn([encode_context(turn, keep_surrogates) for turn in context], encode_message(message, keep_surrogates))
        for context, message in jsontext.loads(steps)
    ]


def encode_message(raw: dict[str, Json], keep_surrogates: bool = False) -> bytes:
    """One chat message in the format that chat templates expect, as JSON. Keys have a fixed order, so equal messages are equal bytes."""
    return encode(_normalized(raw), keep_surrogates=keep_surrogates)


def encode_context(raw: dict[str, Json], keep_surrogates: bool = False) -> bytes:
    """A message to the policy, likewise."""
    if raw["role"] != "assistant":
        return encode_message(raw, keep_surrogates)
    return encode({"role": "assistant", "weight": 0, **_normalized(raw)}, keep_surrogates=keep_surrogates)


def _normalized(raw: dict[str, Json]) -> dict[str, Json]:
    # Unrolled, with the common cases first, since this runs for every message of every row.
    role, content = raw["role"], raw.get("content")
    if type(content) is not str:
        content = _text(content, is_written=role == "assistant")
    elif len(raw) == 2 and role != "developer" and list(raw) == PLAIN:
        return raw
    message: dict[str, Json] = {"role": "system" if role == "developer" else role}
    if call_id := raw.get("tool_call_id"):
        message["tool_call_id"] = call_id
    if name := raw.get("name"):
        message["name"] = name
    message["content"] = content
    if reasoning := raw.get("reasoning_content"):
        message["reasoning_content"] = reasoning
    if calls := raw.get("tool_calls"):
        message["tool_calls"] = [_call(call) for call in calls]
    return message


def encode(value: Json, *, keep_surrogates: bool = False) -> bytes:
    """UTF-8 JSON. Lone surrogates are replaced by U+FFFD, or kept as escapes."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _encode_slowly(value, keep_surrogates)


def _encode_slowly(value: Json, keep_surrogates: bool) -> bytes:
    if keep_surrogates:
        return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
    # orjson also refuses deep nesting, which json supports.
    return json.dumps(without_surrogates(value), ensure_ascii=False, separators=(",", ":")).encode()


def without_surrogates(value: Json) -> Json:
    """The same value with U+FFFD for every lone surrogate."""
    if isinstance(value, str):
        return SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    return value


def encode_tools(chosen: Sequence[Json], rejected: Sequence[Json]) -> bytes:
    """The tools offered in either trajectory, without duplicates, as a JSON string that contains a JSON list."""
    tools = list(chosen)
    tools += [tool for tool in rejected if tool not in tools]
    return orjson.dumps(encode(tools).decode())


def _text(content: Json, *, is_written: bool) -> str:
    """The content as text. is_written: a policy wrote it."""
    if isinstance(content, str):
        return content
    if not content:
        return ""
    if not isinstance(content, list):
        return encode(content).decode()
    texts = [text for part in content if (text := _text_of(part)) is not None]
    return "\n".join(texts if is_written and texts else map(_part, content))


def _text_of(part: Json) -> str | None:
    """The text of a part; None if it has none."""
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else None


def _part(part: Json) -> str:
    text = _text_of(part)
    return f"[{part.get('type', 'part') if isinstance(part, dict) else 'part'}]" if text is None else text


def _call(call: dict[str, Json]) -> dict[str, Json]:
    function = call["function"]
    return {
        "id": call.get("id", ""),
        "type": "function",
        "function": {"name": function["name"], "arguments": _arguments(function.get("arguments"))},
    }


def _arguments(raw: Json) -> Json:
    if type(raw) is not str:
        return raw if isinstance(raw, dict) else {} if raw is None else encode(raw).decode()
    if not raw:
        return {}
    try:
        value = _exactly(raw)
    except (ValueError, RecursionError):
        return raw
    return value if type(value) is dict and not jsontext.is_text_too_deep(raw, value) else raw


def _exactly(text: str) -> Json:
    """Raises ValueError for a number that wouldn't survive decoding unchanged."""
    if not LONG_NUMBER.search(text):
        with suppress(orjson.JSONDecodeError):  # it refuses NaN, lone surrogates, and line breaks in strings
            return orjson.loads(text)
    return json.loads(text, strict=False, parse_int=_int64, parse_float=_finite, parse_constant=_finite)


def _int64(digits: str) -> int:
    number = int(digits)
    if not -(2**63) <= number < 2**64:
        raise ValueError(f"{digits} has more than 64 bits.")
    return number


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits} isn't a number in JSON.")
    return number


# The lateral join walks the primary key trajectory by trajectory, so nothing is sorted and one trajectory is held at a time. Rows follow the
# array's order; `read` checks that instead of sorting hundreds of megabytes on the server.
STEPS = """
SELECT run.place, step.texts, (SELECT tools FROM trajectories_trajectory WHERE id = run.id)
FROM unnest(%s::uuid[]) WITH ORDINALITY AS run (id, place)
CROSS JOIN LATERAL (
    SELECT json_agg(json_build_array(context, message) ORDER BY index) AS texts FROM trajectories_step WHERE trajectory_id = run.id
) AS step
"""
RUNS_AT_ONCE = 4
"""Trajectories fetched per round trip; few, since a trajectory with its observations may be large."""


class Chat(NamedTuple):
    """A trajectory's chat, as undecoded JSON text."""

    steps: bytes
    """JSON list of [context, message]."""
    tools: bytes
    """JSON list of the tools offered in the trajectory."""


class _Bytes(Loader):
    """Loads a json value as its undecoded text, since orjson reads bytes faster than psycopg builds strings."""

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


def read_chats(trajectories: Sequence[UUID | str]) -> Generator[Chat, None, None]:
    """Each trajectory's chat, in the order of `trajectories`. Exhaust or close the generator: the connection is busy until then."""
    # Closing it early cancels the statement, which must not abort a transaction around it.
    with transaction.atomic(), connection.cursor() as cursor:
        raw: Any = cursor.cursor
        raw.adapters.register_loader("json", _Bytes)
        ids = "{" + ",".join(map(str, trajectories)) + "}"  # psycopg would quote them one by one
        with closing(raw.stream(STEPS, [ids], size=RUNS_AT_ONCE)) as rows:
            for expected, (position, steps, tools) in enumerate(rows, start=1):
                if position != expected:
                    raise RuntimeError(
                        "Postgres answered the trajectories out of order; the query plan is not the expected one."
                    )
                yield Chat(steps or b"[]", tools)
