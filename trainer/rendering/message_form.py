"""Messages as a model's chat template wants them, where templates want the same thing otherwise: the place of reasoning, and how calls are spelled."""

import json
import re
from functools import lru_cache
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from contract.messages import Message

THINK, THOUGHT = "<think>", "</think>"
QUESTION, ANSWER = "Is it?", "It is so."
SURROGATE = re.compile("[\ud800-\udfff]")


def spelled(tokenizer: PreTrainedTokenizerBase, messages: list[Message]) -> list[Message]:
    """The messages with reasoning where the template reads it, and calls as it takes them. What a template reads anyway stays as it is."""
    template = str(tokenizer.chat_template)
    messages = encodable(messages)
    wants = wants_of(tokenizer, template)
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
        return [thought_aloud(message, opening) if message["role"] == "assistant" else message for message in messages]
    return messages


def encodable(messages: list[Message]) -> list[Message]:
    """The messages with U+FFFD for lone surrogates: JSON of policies and environments can hold them, no tokenizer reads them."""
    try:
        json.dumps(messages, ensure_ascii=False).encode()
        return messages
    except UnicodeEncodeError:
        return [without_surrogates(message) for message in messages]


def without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(each) for key, each in value.items()}
    return [without_surrogates(each) for each in value] if isinstance(value, list) else value


def thinking(message: Message) -> Message:
    """The message with reasoning as gpt-oss names it, which has no place beside it for words with a call."""
    parts = [message["reasoning_content"]]
    content = message.get("content") or ""
    if message.get("tool_calls") and content:
        parts, content = [*parts, content], ""
    rest = {key: value for key, value in message.items() if key != "reasoning_content"}
    return {**rest, "content": content, "thinking": "\n".join(parts)}


def thought_aloud(message: Message, opening: str) -> Message:
    """The message with its reasoning in its content, begun as the template prompts it (DeepSeek R1's distillations): without, the turn would
    be learned after another prompt than the one that it answers."""
    content = message.get("content") or ""
    if message.get("tool_calls") or content.startswith(THINK):
        return message
    if THOUGHT in content:  # a server that reads no reasoning answers with what follows the prompt
        return {**message, "content": opening + content}
    return {**message, "content": f"{opening}{message.get('reasoning_content') or ''}\n{THOUGHT}\n\n{content}"}


@lru_cache(maxsize=16)
def prompted_thought(tokenizer: PreTrainedTokenizerBase, _: str) -> str:
    """What the template prompts a thought with, such as <think> and a newline; "" where it does not."""
    asked = [{"role": "user", "content": QUESTION}]
    text = str(tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True))
    _, mark, rest = text.rpartition(THINK)
    return mark + rest if mark and not rest.strip() else ""


class Wants(NamedTuple):
    """What a template refuses calls for, or writes wrong, though it has them in another spelling."""

    short_ids: bool
    """Mistral's: nine letters and digits."""
    objects: bool
    """Arguments must not be JSON text, as OpenAI's protocol has them: it goes through their names, or writes the text as one more string."""
    content: bool
    """Where there is no content it must be "", as rollouts have it: None is refused, or written as a word."""


@lru_cache(maxsize=16)
def wants_of(tokenizer: PreTrainedTokenizerBase, _: str) -> Wants:
    """Found by asking the template to write a chat."""
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
        return Wants(short_ids=False, objects=False, content=False)
    of_text = chat(short_id(1), text, "")
    return Wants(
        short_ids=not chat("call_1", arguments, ""),
        objects=not of_text or json.dumps(text) in of_text,
        content=chat(short_id(1), arguments, None) != plain,
    )


def with_objects(message: Message) -> Message:
    """The message with the arguments of its calls as objects where they are the JSON of one."""
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
    """The messages with ids of nine letters and digits: those that are so stay, others are numbered as they come up in the chat.

    Numbered and not drawn, so that a chat only ever grows at its end, two answers to one prompt do not differ in their ids, and there is
    little to learn in them. A result without an id answers the first call that waits.
    """
    given: dict[str, str] = {}
    waiting: list[str] = []
    found = []

    def short(identifier: object) -> str:
        name = str(identifier) if identifier else f" {len(given)}"  # as no id begins: this one is nobody else's
        if name not in given:
            taken = set(given.values())
            free = (short_id(number) for number in range(1, len(given) + 2))
            fits = is_short(name) and name not in taken
            given[name] = name if fits else next(each for each in free if each not in taken)
        return given[name]

    for message in messages:
        if calls := message.get("tool_calls"):
            waiting = [short(call.get("id")) for call in calls]
            named = [{**call, "id": each} for call, each in zip(calls, waiting, strict=True)]
            message = {**message, "tool_calls": named}
        elif message["role"] == "tool":
            given_id = message.get("tool_call_id")
            answered = short(given_id) if given_id or not waiting else waiting[0]
            waiting = [each for each in waiting if each != answered]
            message = {**message, "tool_call_id": answered}
        found.append(message)
    return found


def short_id(number: int) -> str:
    """1 -> "000000001" """
    return f"{number:0{ID_LENGTH}}"


def is_short(identifier: str) -> bool:
    return len(identifier) == ID_LENGTH and identifier.isascii() and identifier.isalnum()
