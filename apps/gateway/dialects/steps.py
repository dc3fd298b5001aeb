"""Converts calls of any protocol to steps of trajectories. Text is kept as sent; unreadable items are kept as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apps.gateway.dialects.anthropic_messages import AnthropicMessages
from apps.gateway.dialects.chat_completions import ChatCompletions
from apps.gateway.dialects.dialect import Dialect
from apps.gateway.dialects.openai_responses import OpenAIResponses
from apps.ingest.normalization.conversation import Conversation, tool_schemas
from contract.completions import arguments_of, context_message, written
from contract.messages import Message
from contract.values import BadRow, Json

MISSHAPEN = (BadRow, AttributeError, LookupError, TypeError)
DIALECTS: dict[str, type[Dialect]] = {
    dialect.name: dialect for dialect in (ChatCompletions, AnthropicMessages, OpenAIResponses)
}


def context_of(dialect: str, items: Iterable[Any]) -> list[Message]:
    """The messages that a call adds before its reply."""
    if dialect == ChatCompletions.name:
        return [context_message(item) for item in items]
    conversation, unread = _conversation(items)
    return [*_messages_of(conversation), *unread]


def reply_of(dialect: str, reply: dict[str, Any]) -> tuple[list[Message], Message]:
    """The policy's message, preceded by results of server-side tools."""
    items = DIALECTS[dialect].items_of(reply)
    if dialect == ChatCompletions.name:
        return [], written(items[0])
    conversation, unread = _conversation(items)
    messages = _messages_of(conversation)
    message = (
        messages.pop() if messages and messages[-1]["role"] == "assistant" else {"role": "assistant", "content": ""}
    )
    if unread:
        appended = "\n".join(message["content"] for message in unread)
        message = {**message, "content": f"{message['content'] or ''}\n{appended}".strip()}
    return messages, message


def end_of(dialect: str, reply: dict[str, Any]) -> Json:
    """Why a reply stopped."""
    return DIALECTS[dialect].end_of(reply)


def tools_in(dialect: str, tools: Json) -> list[Json]:
    """The tools offered in a call, as OpenAI schemas."""
    if dialect == ChatCompletions.name:
        return tools if isinstance(tools, list) else []
    return tool_schemas(tools)


def _conversation(items: Iterable[Any]) -> tuple[Conversation, list[Message]]:
    """The readable items as a chat, and the others as text messages."""
    conversation, unread = Conversation(), []
    for item in items:
        try:
            conversation.add(item)
        except MISSHAPEN:  # servers accept more than can be read, and the session must end nevertheless
            unread.append(context_message({"role": "user", "content": {"item": item}}))
    return conversation, unread


def _messages_of(conversation: Conversation) -> list[Message]:
    """All messages, with call arguments in trajectory form."""
    messages = [message for step in conversation.steps for message in (*step.context, step.message)]
    for message in messages:
        if message["role"] == "assistant":  # of other roles, an agent may have sent anything under this name
            for call in message.get("tool_calls") or []:
                call["function"]["arguments"] = arguments_of(call["function"]["arguments"])
    return [*messages, *conversation.waiting]
