"""The encoding of messages and tools in rows."""

import json
from typing import Any

import pytest

from apps.datasets.rows.chat_encoding import encode_message, encode_tools, read_chats
from apps.trajectories.models import Trajectory
from tests import factories

Message = dict[str, Any]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "assistant", "content": None}, {"role": "assistant", "content": ""}),
        ({"role": "developer", "content": "x"}, {"role": "system", "content": "x"}),
        (
            {"role": "tool", "content": "x", "is_error": True, "name": "f"},
            {"role": "tool", "name": "f", "content": "x"},
        ),
        (
            {"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {}}]},
            {"role": "user", "content": "see\n[image_url]"},
        ),
        (
            {"role": "assistant", "content": [{"type": "text", "text": "So."}, {"type": "source-url", "url": "…"}]},
            {"role": "assistant", "content": "So."},
        ),
        ({"role": "assistant", "content": [{"type": "image"}]}, {"role": "assistant", "content": "[image]"}),
        ({"role": "user", "content": "NUL \x00 stays"}, {"role": "user", "content": "NUL \x00 stays"}),
        ({"role": "user", "content": "lone \ud800"}, {"role": "user", "content": "lone \ufffd"}),
    ],
)
def test_a_message_is_spelled_for_chat_templates(message: Message, expected: Message) -> None:
    assert json.loads(encode_message(message)) == expected


def test_lone_surrogates_can_be_kept() -> None:
    assert json.loads(encode_message(user("\ud800"), keep_surrogates=True))["content"] == "\ud800"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"b": 1, "a": [null]}', {"b": 1, "a": [None]}),
        ("", {}),
        (None, {}),
        ("[1]", "[1]"),
        ("{broken", "{broken"),
        ('{"card": "4111111111111111111"}', {"card": "4111111111111111111"}),
        ('{"id": 18446744073709551616}', '{"id": 18446744073709551616}'),
        ('{"ratio": NaN}', '{"ratio": NaN}'),
        ('{"ratio": 1e999}', '{"ratio": 1e999}'),
        ('{"text": "a\nb", "card": 4111111111111111111}', {"text": "a\nb", "card": 4111111111111111111}),
    ],
)
def test_arguments_are_an_object_where_nothing_is_lost(arguments: object, expected: object) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    message = json.loads(encode_message({"role": "assistant", "content": "", "tool_calls": [call]}))
    assert message["tool_calls"][0]["function"]["arguments"] == expected


def test_deep_nesting_is_written() -> None:
    deep: Any = {}
    for _ in range(400):
        deep = {"a": deep}
    call = {"id": "c", "function": {"name": "f", "arguments": deep}}
    assert encode_message({"role": "assistant", "content": "", "tool_calls": [call]}).count(b'"a"') == 400


@pytest.mark.parametrize("depth", [600, 1020, 5000])
@pytest.mark.parametrize("leaf", ["1", "18446744073709551615"])
@pytest.mark.parametrize("keep_surrogates", [False, True])
def test_arguments_nested_too_deeply_stay_text(depth: int, leaf: str, keep_surrogates: bool) -> None:
    arguments = '{"a":' * depth + leaf + "}" * depth
    call = {"id": "c", "function": {"name": "f", "arguments": arguments}}
    encoded = encode_message({"role": "assistant", "content": "", "tool_calls": [call]}, keep_surrogates)
    assert json.loads(encoded)["tool_calls"][0]["function"]["arguments"] == arguments


def test_tools_of_both_runs_come_once_each() -> None:
    assert json.loads(json.loads(encode_tools([{"n": 1}, {"n": 2}], [{"n": 2}, {"n": 3}]))) == [
        {"n": 1},
        {"n": 2},
        {"n": 3},
    ]


@pytest.mark.django_db
def test_a_read_that_ends_early_leaves_the_transaction_around_it_usable() -> None:
    """More than the connection's buffers hold, so that the server is still sending."""
    prompt = [user("long " * 400_000)]
    several = [factories.trajectory(steps=[(prompt, factories.assistant_message("Done."))]).pk for _ in range(8)]
    chats = read_chats(several)
    next(chats)
    chats.close()
    assert Trajectory.objects.count() == 8
