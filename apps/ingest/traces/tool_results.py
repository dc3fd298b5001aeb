"""Finds tool results in a trace's spans for chats that made the calls but don't include the results."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from apps.ingest.normalization.conversation import MAX_OPEN, Conversation
from apps.ingest.normalization.fields import text
from apps.ingest.records import Json, Message
from apps.ingest.traces.payloads import read_payload

if TYPE_CHECKING:
    from apps.ingest.traces.threads import Span


class OpenCalls(Conversation):
    """Takes the messages of a chat one by one and tracks the calls without a result: the latest MAX_OPEN of them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, Json] = {}
        """By id, in call order."""

    def _call(self, entry: Json) -> Json:
        call = super()._call(entry)
        self.calls[call["id"]] = call
        if len(self.calls) > MAX_OPEN:
            del self.calls[next(iter(self.calls))]
        return call

    def _tool_result(self, entry: Message) -> Message:
        message = super()._tool_result(entry)
        if identifier := message.get("tool_call_id"):
            self.calls.pop(identifier, None)
        return message


class ToolSpans:
    """Tool spans indexed by call id and by tool name, so that a chat only looks at spans that may be its own."""

    def __init__(self, spans: Sequence[Span]) -> None:
        """Spans must be ordered by start."""
        self._spans = [span for span in spans if span.kind == "tool"]
        self._starts = [span.start for span in self._spans]
        self._places: dict[tuple[str, str], list[int]] = defaultdict(list)
        for index, span in enumerate(self._spans):
            self._places["id", span.call_id].append(index)
            self._places["name", span.name].append(index)

    def results(self, open_calls: Mapping[str, Json], since: float, until: float) -> list[Message]:
        """The results of these calls (by id), from spans that began in the interval, as messages in span order."""
        end = bisect_left(self._starts, until)
        first = bisect_left(self._starts, since)
        if first >= end:
            return []  # before the rest, which looks at each open call
        # A call with a span of its id has no other: further spans of its tool may be those of a chat beside it.
        by_id = {identifier for identifier in open_calls if ("id", identifier) in self._places}
        by_name: dict[str, deque[str]] = defaultdict(deque)
        for identifier, call in open_calls.items():
            if identifier not in by_id:
                by_name[call["function"]["name"]].append(identifier)
        keys = [*(("id", identifier) for identifier in by_id), *(("name", name) for name in by_name)]
        ways = [(self._places[key], key) for key in keys if key in self._places]
        waiting = [
            (indices[at], at, key) for indices, key in ways if (at := bisect_left(indices, first)) < len(indices)
        ]
        heapify(waiting)
        messages: list[Message] = []
        last = -1
        while waiting and waiting[0][0] < end:
            index, at, key = heappop(waiting)
            kind, name = key
            if name not in by_id if kind == "id" else not by_name[name]:
                continue  # other spans of this tool answer no call of this chat
            if at + 1 < len(self._places[key]):
                heappush(waiting, (self._places[key][at + 1], at + 1, key))
            if index == last:
                continue  # already found under its other key
            last = index
            span = self._spans[index]
            if span.call_id in by_id:
                identifier = span.call_id
                by_id.remove(identifier)
            elif by_name[span.name]:
                identifier = by_name[span.name].popleft()
            else:
                continue
            message: Message = {"role": "tool", "tool_call_id": identifier, "content": _result_of(span)}
            messages.append(message | ({"is_error": True} if span.error else {}))
        return messages


def _result_of(span: Span) -> Json:
    """A tool's result: text as it is, or unwrapped from the Model Context Protocol."""
    messages = read_payload(span.answer, "tool").messages
    if len(messages) == 1 and messages[0].get("content") is not None:
        return messages[0]["content"]
    return text(span.answer) or span.error or ""
