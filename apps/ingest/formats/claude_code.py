"""Sessions of Claude Code, as it stores or prints them: one line per message; subagents that a session started are trajectories of their own.

Rewound branches are left out: the chat is the path to the last line. One answer spans several lines, one for each
content part, and its tool results may be attached to any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from apps.ingest.formats import Format
from apps.ingest.normalization.conversation import Conversation
from apps.ingest.normalization.fields import (
    count,
    duration_between,
    mapping,
    optional_list,
    prompt_key,
    prompt_of,
    seconds_of,
    text,
)
from apps.ingest.records import BadRow, Json, Message, Outcome, TaskRecord, TrajectoryRecord
from contract import jsontext

EXPECTED = "Lines with `sessionId`, `uuid`, `parentUuid`, `type` and `message`, as Claude Code keeps them."
ASIDE = (
    *("summary", "file-history-snapshot", "queue-operation", "system", "progress", "attachment"),
    *("permission-mode", "mode", "custom-title", "ai-title", "agent-name", "last-prompt", "worktree-state", "pr-link"),
)
"""Lines of these types aren't part of the chat; a session may begin with one."""
SYNTHETIC = "<synthetic>"
"""The model name of messages that Claude Code generates itself, such as errors."""
OF_SESSION = ("cwd", "gitBranch", "version")

Line = dict[str, Any]


class Thread(NamedTuple):
    """The chat that a line belongs to: the session's own, or a subagent's."""

    session: str
    agent: str


def _accepts(row: Json) -> bool:
    first = mapping(row[0]) if type(row) is list and row else {}
    if first.get("type") in ("user", "assistant"):
        return bool({"sessionId", "session_id"} & first.keys()) and type(first.get("message")) is dict
    if first.get("type") == "system" and first.get("subtype") == "init":
        return "session_id" in first
    return first.get("type") in ASIDE and bool({"leafUuid", "snapshot", "sessionId"} & first.keys())


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    if type(row) is not list:
        raise BadRow(f"The record is {jsontext.describe(row)}.", EXPECTED)
    lines = [
        line
        for line in _streamed([_with_prompt(mapping(line)) for line in row])
        if line.get("uuid") and type(line["uuid"]) is str
    ]
    threads: dict[Thread, list[Line]] = {}
    of_line: dict[str, Thread] = {}
    for line in lines:
        before = of_line.get(text(line.get("parentUuid") or line.get("logicalParentUuid")))
        # One file may hold several sessions; a resumed session links back to the one it continues.
        session = before.session if before else text(line.get("sessionId"))
        agent_id = text(line.get("agentId")) or (before.agent if before else "") or line["uuid"]
        thread = Thread(session, agent_id if line.get("isSidechain") else "")
        of_line[line["uuid"]] = thread
        threads.setdefault(thread, []).append(line)
    titles = [text(line.get("summary")) for line in map(mapping, row) if line.get("type") == "summary"]
    title = titles[0] if titles and len({thread.session for thread in threads}) == 1 else ""
    chats = [(thread, own_lines) for thread, own_lines in threads.items() if any(map(_is_message, own_lines))]
    trajectories = [_trajectory(thread.agent, own_lines, title) for thread, own_lines in chats]
    if not trajectories:
        raise BadRow("This session has no messages.", EXPECTED)
    of_sessions = {
        thread.session: record for (thread, _), record in zip(chats, trajectories, strict=True) if not thread.agent
    }
    for trajectory, (thread, _) in zip(trajectories, chats, strict=True):
        trajectory.whole = of_sessions.get(thread.session) if thread.agent else None
    if len({thread.session for thread in threads}) > 1:
        for trajectory, (_, own_lines) in zip(trajectories, chats, strict=True):
            trajectory.part = own_lines
    yield from trajectories


def _with_prompt(line: Line) -> Line:
    """What the user sent while the agent worked is stored as an attachment: the same line as a message. Other lines are unchanged."""
    attached = mapping(line.get("attachment"))
    if line.get("type") != "attachment" or attached.get("type") != "queued_command":
        return line
    return {**line, "type": "user", "message": {"role": "user", "content": attached.get("prompt")}}


def _streamed(lines: list[Line]) -> list[Line]:
    """The lines in stored-session form, including printed ones (`--output-format stream-json`), which simply follow one another."""
    last: dict[Thread, str] = {}
    complete: list[Line] = []
    for index, line in enumerate(lines):
        if "session_id" in line and "sessionId" not in line:
            thread = Thread(text(line["session_id"]), text(line.get("parent_tool_use_id")))
            name = f"{thread.session}-{index}"
            line = {**line, "sessionId": thread.session, "agentId": thread.agent, "isSidechain": bool(thread.agent)}
            line |= {"uuid": name, "parentUuid": last.get(thread)}
            last[thread] = name
        complete.append(line)
    return complete


def _trajectory(thread: str, lines: list[Line], title: str) -> TrajectoryRecord:
    conversation = Conversation()
    models: Counter[str] = Counter()
    previous_time: float | None = None
    for message, message_lines in _answers_joined(_path(lines)):
        details = mapping(message_lines[0].get("message"))
        at = seconds_of(message_lines[-1].get("timestamp"))
        step = conversation.add(message)
        if step:
            usage = mapping(mapping(message_lines[-1].get("message")).get("usage"))
            input_tokens = [count(usage.get(f"{kind}input_tokens")) for kind in ("", "cache_read_", "cache_creation_")]
            step.prompt_tokens = sum(filter(None, input_tokens)) or None
            step.completion_tokens = count(usage.get("output_tokens"))
            step.seconds = duration_between(previous_time, at)
            models[text(details.get("model"))] += 1
        previous_time = previous_time if at is None else at
    session = text(next((line["sessionId"] for line in lines if line.get("sessionId")), ""))
    messages = [
        line for line in lines if _is_message(line) and not line.get("isMeta") and not _parts(line, "tool_result")
    ]
    prompt = [{**mapping(line["message"]), "role": "user"} for line in messages if line["type"] == "user"]
    ending = next((line for line in reversed(lines) if line.get("type") == "result"), {})
    return TrajectoryRecord(
        task=TaskRecord(
            # Printed sessions lack the prompt, so each is a task of its own.
            key=prompt_key(conversation.opening) if conversation.opening else session,
            instruction=prompt_of(prompt),
        ),
        steps=conversation.steps,
        closing=conversation.waiting,
        policy=models.most_common(1)[0][0] or None if models else None,
        id=f"{session}/{thread}" if thread else session,
        outcome=Outcome(
            termination=text(ending.get("subtype")),
        ),
        info={
            **({"title": title} if title and not thread else {}),
            **{key: lines[-1][key] for key in OF_SESSION if lines[-1].get(key)},
            **{key: ending[key] for key in ("total_cost_usd", "num_turns") if ending.get(key) is not None},
        },
    )


def _is_message(line: Line) -> bool:
    message = mapping(line.get("message"))
    return line.get("type") in ("user", "assistant") and "content" in message and message.get("model") != SYNTHETIC


def _path(lines: list[Line]) -> list[Line]:
    """The path of lines that leads to the last one, with all results of the tool calls on it."""
    by_id = {line["uuid"]: line for line in lines}
    ids_on_path: set[str] = set()
    line_on_path: Line | None = next((line for line in reversed(lines) if _is_message(line)), None)
    while line_on_path is not None and line_on_path["uuid"] not in ids_on_path:
        ids_on_path.add(line_on_path["uuid"])
        line_on_path = by_id.get(text(line_on_path.get("parentUuid") or line_on_path.get("logicalParentUuid")))
    calls = {text(part.get("id")) for line in lines if line["uuid"] in ids_on_path for part in _parts(line, "tool_use")}
    for line in lines:
        if any(text(part.get("tool_use_id")) in calls for part in _parts(line, "tool_result")):
            ids_on_path.add(line["uuid"])
    return [line for line in lines if line["uuid"] in ids_on_path and _is_message(line)]


def _parts(line: Line, kind: str) -> list[dict[str, Any]]:
    content = mapping(line.get("message")).get("content")
    return [part for part in map(mapping, content if type(content) is list else []) if part.get("type") == kind]


def _answers_joined(lines: list[Line]) -> list[tuple[Message, list[Line]]]:
    """Messages with their lines: the parts of an answer, which share an id, are joined where it began."""
    messages: list[tuple[Message, list[Line]]] = []
    answers: dict[str, int] = {}
    for line in lines:
        message = mapping(line.get("message"))
        content = message.get("content")
        name = text(message.get("id")) if line["type"] == "assistant" else ""
        if name and name in answers and type(content) is list:
            joined, message_lines = messages[answers[name]]
            joined["content"] = [*optional_list(joined, "content"), *content]
            message_lines.append(line)
            continue
        if name:
            answers[name] = len(messages)
        messages.append(({"role": line["type"], "content": content}, [line]))
    return messages


FORMAT = Format(
    name="claude-code",
    title="Claude Code session",
    shape="the lines of a session, with `sessionId`, `type` and `message`",
    keys=(
        "[].type [].message [].sessionId",
        "[].type [].message [].session_id",
        "[].type [].subtype [].session_id",
        "[].type [].leafUuid",
        "[].type [].snapshot",
        "[].type [].sessionId",
    ),
    accepts=_accepts,
    read=_read,
)
