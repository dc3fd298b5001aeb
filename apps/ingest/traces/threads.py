"""Reconstructs chats from a trace's spans: which model calls continue one another, and what each added.

A call's input includes everything said before, so the last call of a thread holds its chat; earlier calls give the duration of each turn. A call
whose input has no history continues the previous call, with the tool results in between. Agents with a different opening
are separate threads, and separate trajectories.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

from apps.ingest.normalization.conversation import to_steps
from apps.ingest.normalization.fields import duration_between
from apps.ingest.records import BadParts, BadRow, Json, Message, StepRecord, TrajectoryRecord, text_of
from apps.ingest.traces.payloads import Payload, read_payload
from apps.ingest.traces.tool_results import OpenCalls, ToolSpans
from contract import jsontext
from contract.completions import arguments_of

EXPECTED = "A trace contains at least one model call with its input or output."


@dataclass(frozen=True, slots=True)
class Span:
    """A recorded model or tool call."""

    id: str
    kind: Literal["model", "tool", "other"]
    parent: str = ""
    name: str = ""
    start: float = 0.0
    """Seconds since 1970; 0 if unknown."""
    end: float | None = None
    model: str = ""
    given: Json = None
    answer: Json = None
    tools: list[Json] = field(default_factory=list)
    call_id: str = ""
    """For tools: the id of the call it answered."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    error: str | None = None


LOOKED_BACK = 500
"""How many threads with the same opening, the latest, are considered as predecessors of a call."""
MAX_DEPTH, MAX_CALLERS = 50, 20
"""How many spans around a sub-agent's first call, and how many earlier chats, are considered to find the one that called it."""


Said = tuple[str, tuple[tuple[str, bytes], ...]]
"""What identifies a turn: its text, and the name and arguments of each tool call."""


class Thread:
    """A chat as it grows. Only what's new is processed: a chat of thousands of calls may grow by one message with each."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.last = 0
        """Index of the latest turn made by a call."""
        self.said: Said | None = None
        """That turn, if its call recorded it."""
        self.began = 0.0
        """Start time of that call, in seconds."""
        self._open_calls = OpenCalls()
        self._read = 0
        self.calls: dict[int, Span] = {}
        """The model calls, by the turn that they made."""
        self.tools: list[Json] = []
        self.opening: str | None = ""
        """The text before its first turn; None if its input can't be read."""

    def is_continued_by(self, turns: int, opening: str) -> bool:
        """Whether a call whose input has this opening and number of turns continues the last call, or retries it after a failure."""
        is_again = turns == self.last and self.calls[turns].answer is None
        return opening == self.opening and (turns > self.last or is_again)

    def continue_from(self, span: Span, entry: Payload, turns: int, opening: str | None) -> None:
        """Continue with a call whose input includes the whole chat."""
        self.messages = [*entry.messages]
        self._open_calls, self._read = OpenCalls(), 0
        self.opening = opening
        self._add(span, entry.tools, turns)

    def append(self, span: Span, message: Sequence[Message]) -> None:
        """Continue with a call whose input has only new messages, or none."""
        self.messages += message
        self._add(span, [], self.last + 1)

    def end_with(self, answer: Json) -> None:
        """Use this as the last turn if its call recorded no answer."""
        if self.calls[self.last].answer is None:
            self.messages += _as_assistant(read_payload(answer, "assistant").messages)

    def results(self, tools: ToolSpans, until: float) -> list[Message]:
        """The tool results since its last call that the chat doesn't include yet."""
        unread, self._read = self.messages[self._read :], len(self.messages)
        try:
            for message in unread:
                self._open_calls.add(message)
        except BadRow:  # only this chat is refused, and later
            return []
        return tools.results(self._open_calls.calls, self.began, until)

    def _add(self, span: Span, tools: list[Json], turn: int) -> None:
        answer = read_payload(span.answer, "assistant")
        messages = _as_assistant(answer.messages)
        self.messages += messages
        self.said = _first_said(messages)
        self.calls[turn] = span
        self.last, self.began = turn, span.start
        self.tools = span.tools or answer.tools or tools or self.tools


def _as_assistant(messages: list[Message]) -> list[Message]:
    return [{**message, "role": "assistant"} if message["role"] == "user" else message for message in messages]


def trajectories_of(
    spans: Sequence[Span], *, trace: str, details: dict[str, Any], answer: Json = None
) -> Iterator[TrajectoryRecord]:
    """The trajectories in a trace, in the order they began; `details` goes into their info.

    Raises BadRow if there is none, and BadParts, after the others, if some of its chats can't be read.
    `answer` is the trace's own output: it becomes the last turn if its call recorded no answer.
    """
    ordered = sorted(spans, key=lambda span: span.start)
    tools = ToolSpans(ordered)
    threads = threads_of(ordered, tools)
    if not threads:
        if _has_cycle(ordered):
            raise BadRow("The trace's spans form a cycle.", EXPECTED)
        raise BadRow("The trace has no model call.", EXPECTED)
    if len(threads) == 1 and answer is not None:
        threads[0].end_with(answer)
    callers = _callers(threads, ordered)
    called = set(callers)
    opening = next((thread.opening for thread in threads if thread.opening is not None), None)
    wholes: dict[int, TrajectoryRecord] = {}
    refusals: list[BadRow] = []
    for index, (thread, caller) in enumerate(zip(threads, callers, strict=True)):
        try:
            if caller is not None and caller not in wholes:
                raise BadRow("The chat that called it can't be read.", EXPECTED)
            record = _trajectory(thread, tools, is_first_agent=thread.opening == opening)
        except BadRow as refusal:
            refusals.append(refusal)
            continue
        record.id = trace if len(threads) == 1 else f"{trace}/{index + 1}"
        record.info = {**details}
        record.whole = None if caller is None else wholes[caller]
        if index in called:
            wholes[index] = record
        yield record
    if len(refusals) == len(threads):
        raise refusals[0]
    if refusals:
        reason = f"{len(refusals)} of its {len(threads)} chats can't be read. {refusals[0].reason}"
        raise BadParts(reason, refusals[0].expected)


def _trajectory(thread: Thread, tools: ToolSpans, *, is_first_agent: bool) -> TrajectoryRecord:
    """A chat's trajectory. Raises BadRow."""
    conversation = to_steps([*thread.messages, *thread.results(tools, inf)])
    _add_call_details(conversation.steps, thread.calls)
    opening, first = conversation.opening, min(thread.calls)
    if not is_first_agent and first < len(conversation.steps):
        # What a further agent began with was said by others: the agent that handed over to it, or in examples.
        conversation.become_context(first)
    models = Counter(span.model for span in thread.calls.values() if span.model)
    record = conversation.trajectory(
        task_messages=opening, tools=thread.tools, policy=models.most_common(1)[0][0] if models else ""
    )
    if thread.last >= len(conversation.steps):  # no turn shows it
        record.outcome.termination = thread.calls[thread.last].error or ""
    return record


def _callers(threads: Sequence[Thread], spans: Sequence[Span]) -> list[int | None]:
    """For each thread, the one that called it as a tool: its first call is inside of a tool's span. None for the others.

    Of the latest ones that began before, it's the one closest to the tool in the tree of spans.
    """
    by_id = {span.id: span for span in spans}
    latest: deque[tuple[int, set[str]]] = deque(maxlen=MAX_CALLERS)
    callers: list[int | None] = []
    for index, thread in enumerate(threads):
        chain = _enclosing(next(iter(thread.calls.values())), by_id)
        tool = max((place for place, span in enumerate(chain) if span.kind == "tool"), default=None)
        if tool is None:
            latest.appendleft((index, {span.id for span in (*thread.calls.values(), *chain)}))
            callers.append(None)
            continue
        around = [span.id for span in chain[tool + 1 :]]
        distances = {
            other: next((place for place, span in enumerate(around) if span in ids), MAX_DEPTH) for other, ids in latest
        }
        callers.append(min(distances, key=lambda other: distances[other], default=None))
    return callers


def _enclosing(span: Span, by_id: Mapping[str, Span]) -> list[Span]:
    """The spans around one, from the inside out; at most MAX_DEPTH of them, since parents may form a circle."""
    chain: list[Span] = []
    parent = by_id.get(span.parent)
    while parent and len(chain) < MAX_DEPTH:
        chain.append(parent)
        parent = by_id.get(parent.parent)
    return chain


def threads_of(spans: Sequence[Span], tools: ToolSpans) -> list[Thread]:
    """The chats in a trace's spans, which must be ordered by start."""
    threads: list[Thread] = []
    by_opening: dict[str, deque[Thread]] = defaultdict(lambda: deque(maxlen=LOOKED_BACK))
    for span in _model_calls(spans):
        entry = read_payload(span.given, "user")
        try:
            conversation = to_steps(entry.messages)
        except BadRow:  # only this chat is refused, and later
            threads.append(Thread())
            threads[-1].continue_from(span, entry, 0, None)
            continue
        turns, opening = conversation.steps, "\n".join(text_of(message["content"]) for message in conversation.opening)
        alike = by_opening[opening]
        going_on = _continued(reversed(alike), turns, opening)
        if going_on:
            going_on.continue_from(span, entry, len(turns), opening)
        elif threads and not entry.messages:
            threads[-1].append(span, threads[-1].results(tools, span.start))
        else:
            threads.append(Thread())
            threads[-1].continue_from(span, entry, len(turns), opening)
            alike.append(threads[-1])
    return threads


def _continued(threads: Iterable[Thread], turns: Sequence[StepRecord], opening: str) -> Thread | None:
    """The thread, of these from the latest, that a call continues whose input has these turns: the one whose last turn is among them.

    Several agents may have begun alike. If no thread's last turn is repeated literally, since some frameworks rewrite turns, it's the latest thread that fits.
    """
    said: dict[int, Said] = {}
    latest: Thread | None = None
    for thread in threads:
        if not thread.is_continued_by(len(turns), opening):
            continue
        latest = latest or thread
        if thread.last < len(turns):
            if thread.last not in said:
                said[thread.last] = _said(turns[thread.last].message)
            if thread.said == said[thread.last]:
                return thread
    return latest


def _first_said(answer: list[Message]) -> Said | None:
    """None also for an answer that can't be read: only its own chat is refused, and later."""
    try:
        turns = to_steps(answer).steps
    except BadRow:
        return None
    return _said(turns[0].message) if turns else None


def _said(turn: Message) -> Said:
    functions = [call["function"] for call in turn.get("tool_calls") or []]
    calls = tuple((each["name"], jsontext.canonical(arguments_of(each["arguments"]))) for each in functions)
    return text_of(turn["content"]).strip(), calls


def _model_calls(spans: Sequence[Span]) -> list[Span]:
    """The model calls, without those that enclose another one, which record the same, and without empty ones.

    One that encloses another's only in a tool called a sub-agent.
    """
    parents = {span.id: span.parent for span in spans}
    tools = {span.id for span in spans if span.kind == "tool"}
    around: set[str] = set()
    for span in spans:
        parent = span.parent if span.kind == "model" else ""
        while parent and parent not in around and parent not in tools and parent != span.id:
            around.add(parent)
            parent = parents.get(parent, "")
    calls = [span for span in spans if span.kind == "model" and span.id not in around]
    return [span for span in calls if span.given is not None or span.answer is not None]


def _has_cycle(spans: Sequence[Span]) -> bool:
    parents = {span.id: span.parent for span in spans}
    ended: set[str] = set()
    for span in parents:
        way: set[str] = set()
        while span in parents and span not in ended:
            if span in way:
                return True
            way.add(span)
            span = parents[span]
        ended |= way
    return False


def _add_call_details(steps: list[StepRecord], calls: dict[int, Span]) -> None:
    """Add each call's timing, usage, and error to its turn."""
    for turn, span in calls.items():
        if turn < len(steps):
            step = steps[turn]
            step.seconds = duration_between(span.start or None, span.end)
            step.prompt_tokens, step.completion_tokens = span.prompt_tokens, span.completion_tokens
            step.error = span.error
            step.info = {**step.info, "span": span.id}
