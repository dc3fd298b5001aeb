"""What a streamed reply keeps until its end is limited, wherever in its events it is."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from apps.gateway import kept_values, token_capture
from apps.gateway.dialects.anthropic_messages import AnthropicMessages
from apps.gateway.dialects.chat_completions import ChatCompletions
from apps.gateway.dialects.dialect import Dialect, ReplyContext
from apps.gateway.dialects.openai_responses import OpenAIResponses
from apps.gateway.kept_values import KeptValues, NoEvent, values_in

ASK = {"role": "user", "content": "Where is the lamp?"}
MAX_VALUES = 20_000
"""Instead of two million, which take long to send."""
LISTS: list[Any] = [[] for _ in range(2_000)]
ENOUGH = 30
"""So many events of them hold three times as many values as a reply may."""
Event = Callable[[int], dict[str, Any]]


def choice(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, **fields}]}


def delta(**fields: Any) -> dict[str, Any]:
    return choice(delta=fields)


def on_block(**fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": fields}


KEPT_OF_CHATS: dict[str, Event] = {
    "fields": lambda n: {"choices": [], f"field_{n}": LISTS},
    "names": lambda n: {"choices": [], **{f"field_{n}_{number}": 1 for number in range(2_000)}},
    "fields of a message": lambda n: delta(**{f"field_{n}": LISTS}),
    "log-probabilities": lambda _: choice(logprobs={"content": LISTS}),
    "ids of calls": lambda n: delta(tool_calls=[{"index": n, "id": LISTS}]),
    "reasons": lambda n: {"choices": [{"index": n, "delta": {}, "finish_reason": LISTS}]},
    "token ids": lambda _: choice(token_ids=[1] * 2_000),
    "prompt ids": lambda _: {"prompt_token_ids": [1] * 2_000, **choice()},
}
KEPT_OF_MESSAGES: dict[str, Event] = {
    "fields": lambda n: {"type": "message_start", "message": {f"field_{n}": LISTS}},
    "ends": lambda n: {"type": "message_delta", "delta": {f"field_{n}": LISTS}},
    "usage": lambda n: {"type": "message_delta", "delta": {}, "usage": {f"field_{n}": LISTS}},
    "blocks": lambda n: {"type": "content_block_start", "index": n, "content_block": {"input": LISTS}},
    "citations at first": lambda n: {"type": "content_block_start", "index": n, "content_block": {"citations": LISTS}},
    "citations": lambda _: on_block(type="citations_delta", citation=LISTS),
}
KEPT_OF_RESPONSES: dict[str, Event] = {
    "ids of items": lambda n: (
        {"type": "response.in_progress", "item_id": f"first_{n}"}
        | {"response": {"output": [{"id": f"item_{n}_{number}"} for number in range(100)]}}
    ),
}
KEPT = [
    *((ChatCompletions, name) for name in KEPT_OF_CHATS),
    *((AnthropicMessages, name) for name in KEPT_OF_MESSAGES),
    *((OpenAIResponses, name) for name in KEPT_OF_RESPONSES),
]
EVENTS: dict[type[Dialect], dict[str, Event]] = {
    ChatCompletions: KEPT_OF_CHATS,
    AnthropicMessages: KEPT_OF_MESSAGES,
    OpenAIResponses: KEPT_OF_RESPONSES,
}


@pytest.fixture
def _few_values(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kept_values, token_capture):
        monkeypatch.setattr(module, "MAX_VALUES", MAX_VALUES)


def begun(kind: type[Dialect], *, is_blind: bool = False, supports_token_ids: bool = False) -> Dialect:
    """A stream that has begun."""
    context = ReplyContext(UUID(int=1), "any", 0, is_blind=is_blind)
    dialect = kind({"model": "any", "messages": [ASK], "input": [ASK], "stream": True}, context)
    dialect.request(model="lamp-1", sampling={}, supports_token_ids=supports_token_ids)
    if kind is AnthropicMessages:
        dialect.process_chunk({"type": "message_start", "message": {"role": "assistant"}})
        dialect.process_chunk({"type": "content_block_start", "index": 0, "content_block": {"type": "text"}})
    return dialect


@pytest.mark.usefixtures("_few_values")
@pytest.mark.parametrize(("kind", "place"), KEPT)
def test_small_events_of_many_values_do_not_add_up(kind: type[Dialect], place: str) -> None:
    """Each is within the limits, but 64 MB of empty lists take 1.5 GB of memory."""
    dialect = begun(kind, is_blind=kind is OpenAIResponses, supports_token_ids=place in ("token ids", "prompt ids"))
    with pytest.raises(NoEvent):
        _process(dialect, EVENTS[kind][place])


def _process(dialect: Dialect, event: Event) -> None:
    for number in range(ENOUGH):
        dialect.process_chunk(event(number))


@pytest.mark.usefixtures("_few_values")
def test_a_long_stream_may_repeat_its_fields_in_every_chunk() -> None:
    """Some servers count usage in each chunk."""
    dialect = begun(ChatCompletions)
    details = {"prompt_tokens_details": {"cached_tokens": 1, **{f"kind_{number}": 0 for number in range(20)}}}
    for number in range(2_000):
        usage = {"prompt_tokens": 9, "completion_tokens": number, **details}
        dialect.process_chunk({**delta(content="lamp "), "id": "chat-1", "usage": usage})
    dialect.process_chunk(choice(finish_reason="stop"))
    [whole] = dialect.reply()["choices"]
    assert whole["message"]["content"] == "lamp " * 2_000


def test_text_in_place_of_a_list_is_not_taken_apart() -> None:
    """Each letter would be a value."""
    with pytest.raises(NoEvent):
        begun(ChatCompletions).process_chunk(choice(logprobs={"content": "lamp"}))


def test_values_are_counted_at_any_depth() -> None:
    assert values_in({"a": [1, [2, 3]], "b": "text"}) == 6  # the list, 1, the inner list, 2, 3, and the text
    assert values_in("text") == values_in(None) == 0


@pytest.mark.usefixtures("_few_values")
def test_a_replaced_value_is_not_counted_twice() -> None:
    kept = KeptValues()
    fields: dict[str, Any] = {}
    for number in range(30):
        kept.put(fields, "usage", [number] * 1_000)
    assert fields["usage"][0] == 29
