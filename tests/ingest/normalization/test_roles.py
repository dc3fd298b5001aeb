"""Speakers' roles, under any name that a data set uses."""

import pytest

from apps.ingest.normalization.roles import normalized, role_of


@pytest.mark.parametrize(
    ("message", "spelling"),
    [
        ({"role": "user", "content": "x"}, {"role": "user", "content": "x"}),
        ({"from": "human", "value": "x"}, {"role": "user", "content": "x"}),
        ({"from": "GPT", "content": "x"}, {"role": "assistant", "content": "x"}),
        ({"role": "ai", "text": "x", "mask": True}, {"role": "assistant", "content": "x", "mask": True}),
        ({"role": "system", "system_prompt": "x", "text": None}, {"role": "system", "content": "x", "text": None}),
        ({"type": "human", "content": "x"}, {"role": "user", "content": "x"}),
        ({"type": "AIMessage", "content": "x"}, {"role": "assistant", "content": "x"}),
        ({"role": "assistant", "content": None}, {"role": "assistant", "content": None}),
        ({"role": "tool_response", "content": "x"}, {"role": "tool", "content": "x"}),
        ({"role": "ipython", "content": "x"}, {"role": "tool", "content": "x"}),
        ({"from": "function-response", "value": "x"}, {"role": "tool", "content": "x"}),
        ({"role": "tool", "result": {"a": 1}}, {"role": "tool", "content": {"a": 1}}),
        ({"type": "message", "role": "user", "content": "x"}, {"role": "user", "content": "x"}),
        ({"from": "tool-call", "value": "{}"}, {"role": "function_call", "content": "{}"}),
        ({"role": "pirate", "content": "x"}, {"role": "pirate", "content": "x"}),
        ({"from": "pirate", "value": "x"}, {"from": "pirate", "role": "pirate", "value": "x"}),
        ({"content": "x"}, {"content": "x"}),
    ],
)
def test_a_message_gets_role_and_content(message, spelling):
    assert normalized(message) == spelling


@pytest.mark.parametrize(
    "message", [None, "user", [], {}, {"role": 7}, {"role": ["user"]}, {"type": "text", "text": "x"}]
)
def test_what_is_nobodys_message_has_no_role(message):
    assert role_of(message) == ""
