"""The same chat, as several APIs and SDKs write it, is normalized to the same messages, read directly and as traces record it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import count, groupby
from typing import Any

import pytest

from apps.ingest.normalization.conversation import to_steps
from apps.ingest.traces.payloads import read_payload

Message = dict[str, Any]
Chat = list[Message]
CHATS = 100


def chat_of(rng: random.Random) -> Chat:
    """A random chat in the normalized form, in which every text and call id is different."""
    numbers = count()
    chat: Chat = [{"role": "user", "content": f"text {next(numbers)}"}]
    for _ in range(rng.randint(1, 4)):
        calls = [_call(next(numbers), rng) for _ in range(rng.choice([0, 0, 1, 2]))]
        answer: Message = {"role": "assistant", "content": None}
        if not calls or rng.random() < 0.5:
            answer["content"] = f"text {next(numbers)}"
        if rng.random() < 0.4:
            answer["reasoning_content"] = f"text {next(numbers)}"
        chat.append(answer | ({"tool_calls": calls} if calls else {}))
        chat += [{"role": "tool", "tool_call_id": call["id"], "content": f"text {next(numbers)}"} for call in calls]
        chat += [] if calls else [{"role": "user", "content": f"text {next(numbers)}"}]
    return chat


def _call(number: int, rng: random.Random) -> Message:
    function = {"name": rng.choice(["look", "take"]), "arguments": {"what": f"text {number}"}}
    return {"id": f"c{number}", "type": "function", "function": function}


def texts(message: Message) -> list[str]:
    return [message["content"]] if message["content"] else []


def calls(message: Message) -> list[tuple[str, str, Any]]:
    made = message.get("tool_calls", [])
    return [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in made]


def in_parts(
    chat: Chat,
    text: Callable[[str], Any],
    thought: Callable[[str], Any],
    call: Callable[[str, str, Any], Any],
    result: Callable[[str, str], Any],
    *,
    key: str = "content",
    roles: tuple[str, str, str] = ("user", "assistant", "user"),
) -> Chat:
    """A spelling in which every message has parts. `roles`: of the user, of the assistant, and of tool results, which share a message."""
    user, assistant, tool = roles
    messages: Chat = []
    for role, group in groupby(chat, lambda message: str(message["role"])):
        if role == "tool":
            messages.append({"role": tool, key: [result(each["tool_call_id"], each["content"]) for each in group]})
            continue
        for message in group:
            thoughts = [thought(message["reasoning_content"])] if "reasoning_content" in message else []
            parts = [*thoughts, *map(text, texts(message)), *(call(*each) for each in calls(message))]
            messages.append({"role": user if role == "user" else assistant, key: parts})
    return messages


def openai(chat: Chat) -> Chat:
    return chat


def anthropic(chat: Chat) -> Chat:
    return in_parts(
        chat,
        lambda text: {"type": "text", "text": text},
        lambda text: {"type": "thinking", "thinking": text, "signature": "…"},
        lambda id, name, arguments: {"type": "tool_use", "id": id, "name": name, "input": arguments},
        lambda id, text: {"type": "tool_result", "tool_use_id": id, "content": [{"type": "text", "text": text}]},
    )


def bedrock(chat: Chat) -> Chat:
    return in_parts(
        chat,
        lambda text: {"text": text},
        lambda text: {"reasoningContent": {"reasoningText": {"text": text}}},
        lambda id, name, arguments: {"toolUse": {"toolUseId": id, "name": name, "input": arguments}},
        lambda id, text: {"toolResult": {"toolUseId": id, "content": [{"text": text}]}},
    )


def gemini(chat: Chat) -> Chat:
    return in_parts(
        chat,
        lambda text: {"text": text},
        lambda text: {"text": text, "thought": True},
        lambda id, name, arguments: {"functionCall": {"id": id, "name": name, "args": arguments}},
        lambda id, text: {"functionResponse": {"id": id, "response": text}},
        key="parts",
        roles=("user", "model", "user"),
    )


def ai_sdk(chat: Chat) -> Chat:
    return in_parts(
        chat,
        lambda text: {"type": "text", "text": text},
        lambda text: {"type": "reasoning", "text": text},
        lambda id, name, arguments: {"type": "tool-call", "toolCallId": id, "toolName": name, "input": arguments},
        lambda id, text: {"type": "tool-result", "toolCallId": id, "output": {"type": "text", "value": text}},
        roles=("user", "assistant", "tool"),
    )


def ai_sdk_of_pages(chat: Chat) -> Chat:
    """One message for all steps of an answer; a call's part has its result."""
    results = {message["tool_call_id"]: message["content"] for message in chat if message["role"] == "tool"}
    messages: Chat = []
    for is_user, group in groupby(chat, lambda message: message["role"] == "user"):
        parts: list[Any] = []
        for message in group:
            if message["role"] == "tool":
                continue
            parts += [] if is_user else [{"type": "step-start"}]
            if "reasoning_content" in message:
                parts.append({"type": "reasoning", "text": message["reasoning_content"]})
            parts += [{"type": "text", "text": text, "state": "done"} for text in texts(message)]
            for id, name, arguments in calls(message):
                done = {"state": "output-available", "input": arguments, "output": results[id]}
                parts.append({"type": f"tool-{name}", "toolCallId": id, **done})
        messages.append({"role": "user" if is_user else "assistant", "parts": parts})
    return messages


def responses(chat: Chat) -> Chat:
    items: Chat = []
    for message in chat:
        if message["role"] == "tool":
            answered = message["tool_call_id"], message["content"]
            items.append({"type": "function_call_output", "call_id": answered[0], "output": answered[1]})
            continue
        if "reasoning_content" in message:
            items.append(
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": message["reasoning_content"]}]}
            )
        kind = "input_text" if message["role"] == "user" else "output_text"
        for text in texts(message):
            items.append({"type": "message", "role": message["role"], "content": [{"type": kind, "text": text}]})
        for id, name, arguments in calls(message):
            call = {"call_id": id, "name": name, "arguments": json.dumps(arguments)}
            items.append({"type": "function_call", "id": f"fc_{id}", **call})
    return items


SPELLINGS = (openai, anthropic, bedrock, gemini, ai_sdk, ai_sdk_of_pages, responses)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("in_trace", [False, True], ids=["chat", "trace"])
def test_every_spelling_is_the_same_chat(spelling: Callable[[Chat], Chat], in_trace: bool) -> None:
    for seed in range(CHATS):
        chat = chat_of(random.Random(seed))
        recorded = json.loads(json.dumps(spelling(chat)))
        normalized = to_steps(read_payload(recorded, "user").messages if in_trace else recorded)
        messages = [message for step in normalized.steps for message in (*step.context, step.message)]
        assert [_plain(message) for message in (*messages, *normalized.waiting)] == chat


def _plain(message: Message) -> Message:
    """Without what only some spellings have: arguments as text, empty text, and the name of the tool beside its result."""
    plain = {key: value for key, value in message.items() if key != "name"} | {"content": message["content"] or None}
    for call in plain.get("tool_calls", []):
        arguments = call["function"]["arguments"]
        call["function"]["arguments"] = json.loads(arguments) if isinstance(arguments, str) else arguments
    return plain
