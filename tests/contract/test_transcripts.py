"""Chats as text for a judge."""

import pytest

from contract.transcripts import message_lines, shortened

CALL = {"function": {"name": "open", "arguments": {"file": "a"}}}


@pytest.mark.parametrize(
    ("message", "lines"),
    [
        ({"role": "user", "content": "Do it."}, ["USER: Do it."]),
        ({"role": "assistant", "content": ""}, []),
        (
            {"role": "assistant", "content": "So.", "tool_calls": [CALL]},
            ["ASSISTANT: So.", 'ASSISTANT CALLS open({"file": "a"})'],
        ),
        ({"role": "assistant", "content": "Shown.", "weight": 0}, ["ASSISTANT (not judged): Shown."]),
        (
            {"role": "assistant", "tool_calls": [CALL], "weight": 0},
            ['ASSISTANT (not judged) CALLS open({"file": "a"})'],
        ),
        ({"role": "tool", "content": [{"type": "text", "text": "é"}]}, ['TOOL: [{"type": "text", "text": "é"}]']),
    ],
)
def test_each_message_says_who_wrote_it(message, lines):
    assert message_lines(message) == lines


def test_a_long_text_is_cut_in_the_middle():
    assert shortened("a" * 60 + "b" * 60, max_length=20) == f"{'a' * 10}\n[100 characters left out]\n{'b' * 10}"
