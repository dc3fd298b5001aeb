"""A step in one line: what the outline of a long trajectory, its minimap, and the filters need, without the messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from contract import jsontext
from contract.messages import Message, text_of
from contract.trajectory import Step as StepRecord
from contract.trajectory import Trajectory as TrajectoryRecord
from contract.values import Json

LINE = 200
"""Characters of a headline or a result."""

TOOLS = 50
"""Different tools per trajectory that lists can be filtered by."""

NAMES = 100
"""Characters for the names of the tools called."""

HEADLINE_ARGUMENTS = (
    *("command", "cmd", "action", "code", "script", "query", "sql", "q", "keystrokes"),
    *("path", "file_path", "file_name", "filename", "file", "url", "pattern", "search_term"),
    *("expression", "question", "text", "message", "content", "thought", "answer"),
)
"""Arguments that summarize a call, the most informative first."""

_FAILED = re.compile(
    r"""\s*(?:
        traceback\ \(most\ recent\ call\ last\)
      | (?:fatal\ |usage\ |syntax\ |runtime\ |internal\ )?(?:error|exception)\s*(?:[:!-]|\b\w+ing\b)
      | [A-Za-z_.]*(?:Error|Exception)\s*[:(]
      | \{\s*"(?:error|err|exception)"\s*+:\s*+(?!null|""|false|\{\s*\}|\[\s*\])
      | \{\s*"(?:status|type)"\s*:\s*"error"
      | <exception>\s*\S
      | <returncode>\s*+(?!0\s*<)
      | <error>
      | \[?(?:exit|return)[ _]?code\]?\s*+[:=]?+\s*+\[?+(?!0\b)-?\d
      | exitcode:\s*+(?!0\b)-?\d
      | your\ (?:output\ could\ not\ be\ parsed|bash\ command\ contained\ syntax\ errors|proposed\ edit\ has\ introduced)
      | invalid\ (?:[\w-]+\ ){0,3}(?:format|arguments?|input|syntax|action|command|json)\b
      | (?:execution|command)\ timed\ out
      | (?:/bin/)?(?:ba|z|da)?sh:\ .*(?:not\ found|no\ such\ file|permission\ denied|syntax\ error)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
"""How tool results report failure. Only the beginning is matched: file listings and logs mention errors all the time."""

_THINKING = re.compile(r"(?<!\s)\s*<think(?:ing)?>.*?</think(?:ing)?>\s*", re.DOTALL)
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_CONTROL = re.compile(r"[\x01-\x1f\x7f]")
_ONLY_TAGS = re.compile(r"\s*(?:</?[\w-]+>\s*)+|\s*<returncode>0</returncode>\s*")


@dataclass(slots=True)
class Outline:
    """The light columns of a step."""

    kind: str
    tool: str
    headline: str
    result: str
    is_error: bool
    context_chars: int
    result_chars: int


def outline(trajectory: TrajectoryRecord) -> list[Outline]:
    """One outline per step. A step's result is in the messages after it."""
    steps = trajectory.steps
    following = [step.context for step in steps[1:]]
    following.append(trajectory.closing)
    lengths = [_characters(messages) for messages in (*(step.context for step in steps[:1]), *following)]
    return [
        _outline(
            step, after, is_last=after is trajectory.closing, context_chars=lengths[i], result_chars=lengths[i + 1]
        )
        for i, (step, after) in enumerate(zip(steps, following, strict=bool(steps)))
    ]


def failure_of(results: list[Message], *, from_users: bool = False) -> str:
    """The line in which a tool result reports a failure, or "". `from_users`: results arrive as user messages."""
    for message in results:
        if message["role"] != "tool" and not from_users and not message.get("is_error"):
            continue
        text = text_of(message.get("content"), first=400)
        if message.get("is_error") or _FAILED.match(text):
            return one_line(text) or "error"
    return ""


def one_line(text: str, limit: int = LINE) -> str:
    """The first nonblank line, printable: no escape sequences, no NUL, no lone surrogates."""
    text = text[: limit * 8]
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    text = text.lstrip()
    if text[:1] != "<":
        head = text[: 2 * limit].splitlines()
        return clip(head[0].rstrip(), limit) if head else ""
    line = ""
    for candidate in text.splitlines():
        if candidate and not candidate.isspace():
            if candidate[0] != "<" or not _ONLY_TAGS.fullmatch(candidate):
                line = candidate
                break
            line = line or candidate
    return clip(line[: 2 * limit].strip(), limit)


def clip(text: str, limit: int) -> str:
    """Text on one line, short enough for its column and storable as Postgres text."""
    if len(text) > limit:
        text = text[: limit + 1]
    if not text.isprintable():
        text = visible(_CONTROL.sub(" ", text.replace("\x00", "␀")))
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def visible(text: str) -> str:
    r"""Text that Postgres and UTF-8 accept: NUL as ␀, lone surrogates as their \u escapes. The rest is unchanged."""
    if "\x00" in text:
        text = text.replace("\x00", "␀")
    if text.isascii():
        return text
    return text.encode("utf-8", "backslashreplace").decode()


def _outline(
    step: StepRecord, after: list[Message], *, is_last: bool, context_chars: int, result_chars: int
) -> Outline:
    message = step.message
    calls = message.get("tool_calls")
    # For agents that write commands as text, `info.action` is the parsed command.
    action = step.info.get("action") if step.info else None
    acts = type(action) is str and not calls and not action.isspace() and action != ""
    failure = step.error or failure_of(after, from_users=acts)
    if calls:
        kind, headline = "tool", _call_line(calls)
        tool = calls[0]["function"]["name"] if len(calls) == 1 else _names(calls)
    elif acts:
        kind = "tool"
        tool, _, rest = one_line(str(action)).partition(" ")
        headline = rest.strip()
    else:
        content = text_of(message.get("content"), first=LINE * 40)
        thoughts = message.get("reasoning_content") or ""
        if "<think" in content[:20]:
            thoughts, content = content, _THINKING.sub("", content, count=1)
        kind = "final" if is_last and not after else "message"
        if thoughts and (not content or content.isspace()):
            content, kind = thoughts, "reasoning"
        tool, headline = "", one_line(content)
    return Outline(
        kind=kind,
        tool=clip(tool, NAMES),
        headline=headline,
        result=one_line(failure) if failure else _result_line(after),
        is_error=bool(failure),
        context_chars=context_chars,
        result_chars=result_chars,
    )


def tools_called(names: Iterable[str]) -> list[str]:
    """The tools that steps called, from their displayed names; truncated names are left out."""
    called = {name for joined in names for name in joined.split(", ") if name and not name.endswith("…")}
    return sorted(called)[:TOOLS]


def _names(calls: list[Any]) -> str:
    return ", ".join(dict.fromkeys(call["function"]["name"] for call in calls))


def _call_line(calls: list[Any]) -> str:
    first = _arguments_line(calls[0]["function"].get("arguments"))
    return clip(f"{first}  (+{len(calls) - 1} more)", LINE) if len(calls) > 1 else first


def _arguments_line(arguments: Json) -> str:
    text = arguments
    if type(arguments) is str:
        try:
            arguments = jsontext.parse(arguments)
        except jsontext.UnreadableJSON:
            return one_line(text)
        if jsontext.is_text_too_deep(text, arguments):
            return one_line(text)
    if type(arguments) is not dict:
        return one_line(text if type(text) is str else jsontext.dumps(arguments).decode())
    if len(arguments) == 1:
        return one_line(_as_text(next(iter(arguments.values()))))
    for name in HEADLINE_ARGUMENTS:
        value = arguments.get(name)
        if type(value) is str and value and not value.isspace():
            return one_line(value)
    shown = {name: _as_text(value) for name, value in arguments.items()}
    return clip(", ".join(f"{name}={value[:80]}" for name, value in shown.items()), LINE)


def _as_text(value: Json) -> str:
    return value if type(value) is str else jsontext.dumps(value).decode()


def _result_line(after: list[Message]) -> str:
    for message in after:
        if message["role"] == "tool":
            return one_line(text_of(message.get("content"), first=LINE * 8))
    for message in after:
        if message["role"] == "user":
            return one_line(text_of(message.get("content"), first=LINE * 8))
    return ""


def _characters(messages: list[Message]) -> int:
    total = 0
    for message in messages:
        content = message.get("content")
        total += len(content) if type(content) is str else len(text_of(content))
    return total
