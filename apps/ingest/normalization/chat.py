"""Builds a trajectory from a chat and its row's columns; shared by all formats whose trajectories are chats."""

from __future__ import annotations

from collections.abc import Sequence

from apps.ingest.normalization.columns import (
    ENVIRONMENT,
    INSTANCE,
    INSTRUCTION,
    NAME,
    POLICY,
    SYSTEM,
    TASK,
    TERMINATION,
    TOOLS,
    Columns,
    inside,
    named,
    nonempty_text,
    succeeded,
)
from apps.ingest.normalization.conversation import Conversation, to_steps, tool_schemas
from apps.ingest.normalization.fields import count, first_of, mapping, prompt_key, prompt_of, reward_of, text
from apps.ingest.normalization.roles import role_of
from apps.ingest.normalization.swe_bench import instance_environment, issue_of
from apps.ingest.records import Json, Message, Outcome, TaskRecord, TrajectoryRecord

USED = ("category", "difficulty", "usage", "info", "choices", "tags")
NAMES_OF_CHAT = (
    *("conversation_id", "conversationId", "session_id", "sessionId", "thread_id", "threadId", "chat_id"),
    *("trajectory_id", "traj_id", "dialogue_id", "episode_id", "conversation_hash"),
)
"""Columns in which single messages name their chat."""


class Chat(Columns):
    """A row's messages and its other columns; `prompt` holds messages before those that the policy didn't write, whoever speaks in them."""

    def __init__(
        self, row: dict[str, Json], messages: list[Json], taken: tuple[str, ...], *, prompt: Sequence[Json] = ()
    ) -> None:
        super().__init__(row, (*USED, *taken))
        self.prompt = [*prompt]
        self.messages = messages


def chat_trajectory(chat: Chat) -> TrajectoryRecord:
    """The trajectory of a chat; columns with unknown meaning are kept in `info`. Raises BadRow."""
    row = chat.row
    # In a Responses API object, and nowhere else, `instructions` is the system prompt.
    system = chat.take(_prompt, (*SYSTEM, "instructions") if row.get("object") == "response" else SYSTEM)
    first = next(iter(chat.prompt or chat.messages), None)
    if system and first is not None and role_of(first) != "system":
        chat.prompt = [{"role": "system", "content": system}, *chat.prompt]
    conversation = to_steps(chat.prompt)
    asked = opening_of(conversation)
    conversation.become_context()
    for message in chat.messages:
        conversation.add(message)
    for step in conversation.steps:
        if (reward := reward_of(step.info.get("reward"))) is not None:
            step.reward = reward
            del step.info["reward"]
    opening = asked if any(message["role"] == "user" for message in asked) else opening_of(conversation)
    usage = mapping(first_of(row, "usage") or inside(row, "response.usage"))
    if usage and conversation.steps:
        # A row of an API log: its usage belongs to the answer that it records.
        conversation.steps[-1].prompt_tokens = count(usage.get("prompt_tokens"))
        conversation.steps[-1].completion_tokens = count(usage.get("completion_tokens"))
    instance, key = chat.take(named, INSTANCE), chat.take(named, TASK)
    prompt = prompt_of(_after_demonstrations(opening))
    tools = chat.take(lambda entry: tool_schemas(entry) or None, TOOLS) or []
    info = {key: value for key, value in mapping(row.get("info")).items() if key != "oai_tools"}
    swe_bench = instance_environment(instance or "")
    return TrajectoryRecord(
        task=TaskRecord(
            key=key or prompt_key(opening),
            instruction=chat.take(nonempty_text, INSTRUCTION) or (issue_of(prompt) if instance else prompt),
            environment=chat.take(nonempty_text, ENVIRONMENT) or (swe_bench if swe_bench == "swe-bench" else ""),
            category=text(row.get("category")),
            difficulty=text(row.get("difficulty")),
        ),
        steps=conversation.steps,
        closing=conversation.waiting,
        tools=tools,
        policy=chat.take(nonempty_text, POLICY),
        id=chat.take(named, NAME) or "",
        outcome=Outcome(
            reward=chat.take_rewards(conversation.steps),
            success=succeeded(row, chat),
            termination=chat.take(nonempty_text, TERMINATION) or "",
        ),
        tags=[text(tag) for tag in row["tags"]] if type(row.get("tags")) is list else [],
        info={**info, **chat.rest()},
    )


def opening_of(conversation: Conversation) -> list[Message]:
    """The prompt: all messages up to the first from a user, who may be answering the agent's greeting."""
    messages: list[Message] = []
    for step in conversation.steps:
        messages += step.context
        if any(message["role"] == "user" for message in step.context):
            return messages
    return messages + conversation.waiting


def _after_demonstrations(opening: list[Message]) -> list[Message]:
    """What follows the last assistant message in the opening, so that demonstrations aren't part of the prompt."""
    last = max((index for index, message in enumerate(opening) if message["role"] == "assistant"), default=-1)
    return opening[last + 1 :]


def _prompt(value: Json) -> Json:
    """A system prompt stored beside the messages, as text or parts."""
    is_present = bool(value.strip()) if type(value) is str else type(value) is list and bool(value)
    return value if is_present else None
