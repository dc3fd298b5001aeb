"""A server's message becomes a policy's, with everything that it said."""

from __future__ import annotations

from contract.completions import message_from


def test_a_refusal_is_what_the_policy_said() -> None:
    refused = {"role": "assistant", "content": None, "refusal": "I can't help with that."}
    assert message_from(refused) == {"role": "assistant", "content": "I can't help with that."}
    answered = {"role": "assistant", "content": "Done.", "refusal": None}
    assert message_from(answered) == {"role": "assistant", "content": "Done."}


def test_a_custom_tools_call_keeps_its_name_and_text() -> None:
    call = {"id": "c", "type": "custom", "custom": {"name": "run", "input": "print(1)"}}
    [kept] = message_from({"role": "assistant", "content": None, "tool_calls": [call]})["tool_calls"]
    assert kept == {"id": "c", "type": "function", "function": {"name": "run", "arguments": "print(1)"}}


def test_a_legacy_function_call_is_kept() -> None:
    [kept] = message_from({"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}})[
        "tool_calls"
    ]
    assert kept == {"id": "", "type": "function", "function": {"name": "look", "arguments": {}}}
