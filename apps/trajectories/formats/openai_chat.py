"""OpenAI-style chat messages with tool calls: an object with `messages`, or the bare list of them."""

from __future__ import annotations

from collections.abc import Iterator

from apps.trajectories.chats import ROLES, to_steps, tool_schemas
from apps.trajectories.fields import count, first_of, flag, mapping, number, prompt_key, prompt_of, text
from apps.trajectories.formats import Format
from apps.trajectories.records import BadRow, Json, TaskRecord, TrajectoryRecord

MESSAGE_LISTS = ("messages", "conversation", "conversations", "chat")
USED = frozenset(
    {
        *MESSAGE_LISTS,
        "tools",
        "functions",
        "reward",
        "score",
        "success",
        "resolved",
        "model",
        "policy",
        "model_name",
        "tags",
    }
    | {
        "id",
        "task_id",
        "instance_id",
        "instruction",
        "environment",
        "category",
        "difficulty",
        "termination",
        "finish_reason",
    }
    | {"usage", "info", "choices", "response"}
)
CHAT_ROLES = ROLES | {"function"}


def _messages(row: Json) -> list[Json] | None:
    if type(row) is list:
        return row
    if type(row) is dict:
        for key in MESSAGE_LISTS:
            if type(row.get(key)) is list:
                found: list[Json] = row[key]
                return found
    return None


def _recognises(row: Json) -> bool:
    messages = _messages(row)
    if not messages or (type(row) is dict and ("chosen" in row or "rejected" in row)):
        return False
    return type(messages[0]) is dict and text(messages[0].get("role")) in CHAT_ROLES and "trajectory_format" not in row


def _read(row: Json, filename: str) -> Iterator[TrajectoryRecord]:
    messages = _messages(row)
    if not messages:
        raise BadRow(
            "There are no messages.", "An object whose `messages` is a list of chat messages, or the list alone."
        )
    fields = row if type(row) is dict else {}
    yield chat_trajectory(fields, messages + _answer(fields, messages), used=USED)


def _answer(row: dict[str, Json], messages: list[Json]) -> list[Json]:
    """The answer of a logged request, which stands beside its messages; nothing where it is among them already."""
    answered = row if "choices" in row else mapping(row.get("response"))
    choices = answered.get("choices")
    answer = mapping(choices[0]).get("message") if type(choices) is list and choices else None
    return [answer] if type(answer) is dict and answer != messages[-1] else []


def chat_trajectory(row: dict[str, Json], messages: list[Json], *, used: frozenset[str]) -> TrajectoryRecord:
    """A chat and what its row says about it; keys that are not `used` are kept in `info`. Raises BadRow."""
    conversation = to_steps(messages)
    opening = conversation.steps[0].context if conversation.steps else conversation.waiting
    given = first_of(row, "task_id", "instance_id")
    info = {
        **mapping(row.get("info")),
        **{key: value for key, value in row.items() if key not in used and value is not None},
    }
    usage = mapping(row.get("usage"))
    if usage and conversation.steps:
        # A row of an API log: its usage is that of the answer it records.
        conversation.steps[-1].prompt_tokens = count(usage.get("prompt_tokens"))
        conversation.steps[-1].completion_tokens = count(usage.get("completion_tokens"))
    return TrajectoryRecord(
        task=TaskRecord(
            key=prompt_key(opening) if given is None else text(given),
            instruction=text(row.get("instruction")) or prompt_of(opening),
            environment=text(row.get("environment")),
            category=text(row.get("category")),
            difficulty=text(row.get("difficulty")),
        ),
        steps=conversation.steps,
        closing=conversation.waiting,
        tools=tool_schemas(first_of(row, "tools", "functions", "oai_tools") or info.pop("oai_tools", None)),
        policy=_name(first_of(row, "policy", "model", "model_name")),
        external_id=text(row.get("id")),
        reward=number(first_of(row, "reward", "score")),
        success=flag(first_of(row, "success", "resolved")),
        termination=text(first_of(row, "termination", "finish_reason")),
        tags=[text(tag) for tag in row["tags"]] if type(row.get("tags")) is list else [],
        info=info,
    )


def _name(given: Json) -> str | None:
    return given if type(given) is str and given else None


FORMAT = Format(
    name="openai-chat",
    title="OpenAI-style chat",
    shape="an object with `messages` (and `tools`, `reward`, …), or a list of messages with `role` and `content`",
    recognises=_recognises,
    read=_read,
    general=True,
)
