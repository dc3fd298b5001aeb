"""Adapts messages to a model's chat template, since templates differ in the place of reasoning and the form of calls."""

import json
import re
from functools import lru_cache
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from contract.messages import Message

THINK, THOUGHT = "<think>", "</think>"
QUESTION, ANSWER = "Is it?", "It is so."
SURROGATE = re.compile("[\ud800-\udfff]")


def in_template_form(tokenizer: PreTrainedTokenizerBase, messages: list[Message]) -> list[Message]:
    """The messages with reasoning and calls in the form that the template expects. What it already accepts is unchanged."""
    template = str(tokenizer.chat_template)
    messages = encodable(messages)
    wants = needs_of(tokenizer, template)
    if wants.short_ids:
        messages = with_short_ids(messages)
    if wants.objects:
        messages = [with_objects(message) if message.get("tool_calls") else message for message in messages]
    if wants.content:
        messages = [{**message, "content": ""} if message.get("content") is None else message for message in messages]
    if "reasoning_content" in template:
        return messages
    if "message.thinking" in template:
        return [thinking(message) if message.get("reasoning_content") else message for message in messages]
    if opening := prompted_thought(tokenizer, template):
        return [
            with_inlined_reasoning(message, opening) if message["role"] == "assistant" else message
            for message in messages
        ]
    return messages


def encodable(messages: list[Message]) -> list[Message]:
    """The messages with lone surrogates, which JSON can contain but tokenizers can't encode, replaced by U+FFFD."""
    try:
        json.dumps(messages, ensure_ascii=False).encode()
        return messages
    except UnicodeEncodeError:
        return [without_surrogates(message) for message in messages]


def without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    return [without_surrogates(item) for item in value] if isinstance(value, list) else value


def thinking(message: Message) -> Message:
    """The message with reasoning in gpt-oss's field; a call can't also have content there."""
    parts = [message["reasoning_content"]]
    content = message.get("content") or ""
    if message.get("tool_calls") and content:
        parts, content = [*parts, content], ""
    rest = {key: value for key, value in message.items() if key != "reasoning_content"}
    return {**rest, "content": content, "thinking": "\n".join(parts)}


def with_inlined_reasoning(message: Message, opening: str) -> Message:
    """The message with its reasoning in its content, starting with the template's thought prompt (DeepSeek R1 distillations):
    otherwise, the turn would be trained after a different prompt from the one at inference."""
    content = message.get("content") or ""
    if message.get("tool_calls") or content.startswith(THINK):
        return message
    if THOUGHT in content:  # a server without a reasoning parser returns what follows the prompt
        return {**message, "content": opening + content}
    return {**message, "content": f"{opening}{message.get('reasoning_content') or ''}\n{THOUGHT}\n\n{content}"}


@lru_cache(maxsize=16)
def prompted_thought(tokenizer: PreTrainedTokenizerBase, _: str) -> str:
    """The template's thought prompt, such as <think> and a newline; "" if there is none."""
    messages = [{"role": "user", "content": QUESTION}]
    text = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    _, mark, rest = text.rpartition(THINK)
    return mark + rest if mark and not rest.strip() else ""


class TemplateNeeds(NamedTuple):
    """Forms of calls that a template requires; others are refused or rendered wrongly."""

    short_ids: bool
    """Mistral's call ids: nine letters and digits."""
    objects: bool
    """Arguments must not be JSON text, as in OpenAI's protocol: the template iterates over their names, or encodes the text again."""
    content: bool
    """Missing content must be "": None is refused, or rendered as a word."""


@lru_cache(maxsize=16)
def needs_of(tokenizer: PreTrainedTokenizerBase, _: str) -> TemplateNeeds:
    """Determined by rendering test chats."""
    arguments = {"at": "it"}
    text = json.dumps(arguments)

    def chat(identifier: str, arguments: object, content: str | None) -> str:
        function = {"name": "look", "arguments": arguments}
        call: dict[str, Any] = {"id": identifier, "type": "function", "function": function}
        messages: list[Any] = [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": content, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": identifier, "name": "look", "content": ANSWER},
            {"role": "assistant", "content": ANSWER},
        ]
        try:
            return str(tokenizer.apply_chat_template(messages, tokenize=False))
        except Exception:  # a template may raise anything: TemplateError, TypeError, …
            return ""

    plain = chat(short_id(1), arguments, "")
    if not plain:
        return TemplateNeeds(short_ids=False, objects=False, content=False)
    of_text = chat(short_id(1), text, "")
    return TemplateNeeds(
        short_ids=not chat("call_1", arguments, ""),
        objects=not of_text or json.dumps(text) in of_text,
        content=chat(short_id(1), arguments, None) != plain,
    )


def with_objects(message: Message) -> Message:
    """The message with its calls' arguments decoded if they're JSON objects."""
    calls = [
        {**call, "function": {**call["function"], "arguments": as_object(call["function"].get("arguments"))}}
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}


def as_object(arguments: object) -> object:
    if not isinstance(arguments, str):
        return arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value if isinstance(value, dict) else arguments


ID_LENGTH = 9


def with_short_ids(messages: list[Message]) -> list[Message]:
    """The messages with ids of nine letters and digits: valid ones are kept, others are numbered in order of appearance.

    Numbered rather than random, so that chats only grow at their end, two answers to a prompt don't differ in their ids, and the ids
    are easy to predict. A result without an id answers the first pending call.
    """
    short_ids: dict[str, str] = {}
    waiting: list[str] = []
    renamed = []

    def short(identifier: object) -> str:
        name = str(identifier) if identifier else f" {len(short_ids)}"  # no id starts like this, so it's unique
        if name not in short_ids:
            used_ids = set(short_ids.values())
            free = (short_id(number) for number in range(1, len(short_ids) + 2))
            fits = is_short(name) and name not in used_ids
            short_ids[name] = name if fits else next(short_id for short_id in free if short_id not in used_ids)
        return short_ids[name]

    for message in messages:
        if calls := message.get("tool_calls"):
            waiting = [short(call.get("id")) for call in calls]
            calls_with_ids = [{**call, "id": call_id} for call, call_id in zip(calls, waiting, strict=True)]
            message = {**message, "tool_calls": calls_with_ids}
        elif message["role"] == "tool":
            given_id = message.get("tool_call_id")
            answered = short(given_id) if given_id or not waiting else waiting[0]
            waiting = [call_id for call_id in waiting if call_id != answered]
            message = {**message, "tool_call_id": answered}
        renamed.append(message)
    return renamed


def short_id(number: int) -> str:
    """1 -> "000000001" """
    return f"{number:0{ID_LENGTH}}"


def is_short(identifier: str) -> bool:
    return len(identifier) == ID_LENGTH and identifier.isascii() and identifier.isalnum()
