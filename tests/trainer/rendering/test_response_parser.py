"""The policy's output is parsed into a message; what can't be parsed is kept unchanged."""

import pytest

from tests.trainer.policies import ANSWER, ASK, FIRST, TOOLS, small_tokenizer
from trainer.rendering.chat import render, render_prompt, turn_ends
from trainer.rendering.response_parser import Parsed, parse_turn

TOKENIZER = small_tokenizer()
PROMPT = render_prompt(TOKENIZER, [ASK], TOOLS)


def parsed(text: str) -> Parsed:
    return parse_turn(
        TOKENIZER, TOKENIZER(text)["input_ids"], prompt_ids=PROMPT, tools=TOOLS, ends=turn_ends(TOKENIZER)
    )


@pytest.mark.parametrize(
    "message", [FIRST, ANSWER, {**FIRST, "content": "Wait."}, {**ANSWER, "reasoning_content": "Hm"}]
)
def test_rendering_and_parsing_are_inverse(message: dict[str, object]):
    rendered = render(TOKENIZER, [ASK, message], TOOLS)
    own = [token for token, mine in zip(*rendered, strict=True) if mine]
    read = parse_turn(TOKENIZER, own, prompt_ids=PROMPT, tools=TOOLS, ends=turn_ends(TOKENIZER), call_ids="c")
    if "tool_calls" in message:
        assert read.message["tool_calls"][0].pop("id") == "c_1"
        message = {**message, "tool_calls": [{k: v for k, v in FIRST["tool_calls"][0].items() if k != "id"}]}
    assert read == (message, None)


def test_several_calls_are_numbered():
    one = '<tool_call>\n{"name": "find", "arguments": {"name": "a"}}\n</tool_call>'
    calls = parsed(one + one + "<|im_end|>").message["tool_calls"]
    assert [call["id"] for call in calls] == ["call_1", "call_2"]


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "find", "arguments": {"na\n</tool_call><|im_end|>',
        '<tool_call>\n{"arguments": {}}\n</tool_call><|im_end|>',
        '<tool_call>\n["find"]\n</tool_call><|im_end|>',
    ],
)
def test_a_call_that_cannot_be_read_is_an_error_and_stays_in_the_content(text: str):
    read = parsed(text)
    assert read.error
    assert read.message == {"role": "assistant", "content": text.removesuffix("<|im_end|>")}


def test_a_turn_that_was_cut_off_does_not_raise():
    assert parsed('<tool_call>\n{"name": "fi').message["role"] == "assistant"
    assert parsed("").message == {"role": "assistant", "content": ""}
