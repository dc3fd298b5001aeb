"""Only what the policy wrote carries loss, checked token by token against chats written out here."""

from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from tests.trainer.policies import (
    AGAIN,
    ANSWER,
    ASK,
    FIRST,
    NOTHING,
    RESULT,
    SECOND,
    SYSTEM,
    TOOLS,
    qwen3_tokenizer,
    small_tokenizer,
)
from trainer.failures import ConfigFailure
from trainer.rendering.chat import render, render_completion, render_prompt, runs_of_ones
from trainer.rendering.templates import prepare_template

CHAT = [SYSTEM, ASK, FIRST, RESULT, ANSWER, AGAIN, SECOND, NOTHING, ANSWER]
THEIRS, OWN = False, True

SMALL = [
    ("<|im_start|>system\nBe brief.\nTools: find<|im_end|>\n", THEIRS),
    ("<|im_start|>user\nFind the budget.<|im_end|>\n", THEIRS),
    ("<|im_start|>assistant\n", THEIRS),
    ('<tool_call>\n{"name": "find", "arguments": {"name": "budget"}}\n</tool_call><|im_end|>', OWN),
    ("\n", THEIRS),
    ('<|im_start|>user\n<tool_response>\n[{"file": "f12"}]\n</tool_response><|im_end|>\n', THEIRS),
    ("<|im_start|>assistant\n", THEIRS),
    ("There is none.<|im_end|>", OWN),
    ("\n", THEIRS),
    ("<|im_start|>user\nAnd the offer?<|im_end|>\n", THEIRS),
    ("<|im_start|>assistant\n", THEIRS),
    ('<tool_call>\n{"name": "find", "arguments": {"name": "offer"}}\n</tool_call><|im_end|>', OWN),
    ("\n", THEIRS),
    ('<|im_start|>user\n<tool_response>\n{"error": "no offer"}\n</tool_response><|im_end|>\n', THEIRS),
    ("<|im_start|>assistant\n", THEIRS),
    ("There is none.<|im_end|>", OWN),
    ("\n", THEIRS),
]
QWEN3_TOOLS = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
    '{"type": "function", "function": {"name": "find", "description": "Find a file.", "parameters": {"type": "object", '
    '"properties": {"name": {"type": "string"}}, "required": ["name"]}}}\n</tools>\n\n'
    "For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML "
    'tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call><|im_end|>\n'
)
THINKS = "<think>\n\n</think>\n\n"
QWEN3 = [
    ("<|im_start|>system\nBe brief.\n\n" + QWEN3_TOOLS, THEIRS),
    *[(THINKS + text if own else text, own) for text, own in SMALL[1:]],
]


def by_hand(tokenizer: PreTrainedTokenizerFast, pieces: list[tuple[str, bool]]) -> tuple[list[int], list[int]]:
    """Token ids and mask of a chat given in pieces. Pieces may only be split where no token spans the boundary."""
    ids: list[int] = []
    mask: list[int] = []
    for text, own in pieces:
        piece = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids += piece
        mask += [int(own)] * len(piece)
    return ids, mask


def qwen3() -> PreTrainedTokenizerFast:
    tokenizer = qwen3_tokenizer()
    prepare_template(tokenizer)
    return tokenizer


@pytest.mark.parametrize(("tokenizer", "pieces"), [(small_tokenizer(), SMALL), (qwen3(), QWEN3)])
def test_ids_and_mask_are_those_of_the_chat_spelled_out(tokenizer: Any, pieces: list[tuple[str, bool]]):
    assert render(tokenizer, CHAT, TOOLS) == by_hand(tokenizer, pieces)


@pytest.mark.parametrize(("tokenizer", "pieces"), [(small_tokenizer(), SMALL), (qwen3(), QWEN3)])
def test_a_completion_is_masked_after_its_prompt_and_cut_after_its_last_own_token(tokenizer: Any, pieces: Any):
    """The assistant turns in the shared prefix aren't learned from."""
    ids, mask = by_hand(tokenizer, [(text, own and index > 9) for index, (text, own) in enumerate(pieces[:-1])])
    assert render_completion(tokenizer, CHAT[:6], CHAT[6:], TOOLS) == (ids, mask)


@pytest.mark.parametrize(("tokenizer", "pieces"), [(small_tokenizer(), SMALL), (qwen3(), QWEN3)])
def test_an_answer_that_the_policy_did_not_write_carries_no_loss(tokenizer: Any, pieces: Any):
    """ANSWER is the second turn."""
    ids, mask = by_hand(tokenizer, [(text, own and index != 7) for index, (text, own) in enumerate(pieces[:-1])])
    shown = [*CHAT[:4], {**ANSWER, "weight": 0}, *CHAT[5:]]
    assert render_completion(tokenizer, [], shown, TOOLS) == (ids, mask)
    (last,) = runs_of_ones(render_completion(tokenizer, [], [*CHAT[:3], RESULT, {**ANSWER, "weight": 0}], TOOLS).mask)
    assert last.stop == len(by_hand(tokenizer, pieces[:4])[0])


def test_a_tool_result_at_the_end_is_cut_off():
    rendered = render_completion(small_tokenizer(), [SYSTEM, ASK], [FIRST, RESULT], TOOLS)
    assert rendered == by_hand(small_tokenizer(), SMALL[:4])


@pytest.mark.parametrize("tokenizer", [small_tokenizer(), qwen3()])
def test_a_chat_only_ever_grows_at_its_end(tokenizer: Any):
    """What the policy saw when it acted is a prefix of what it's trained on."""
    whole = render(tokenizer, CHAT, TOOLS).ids
    for length in (2, 4, 6, 8):
        prompt = render_prompt(tokenizer, CHAT[:length], TOOLS)
        assert whole[: len(prompt)] == prompt


def test_reasoning_is_the_policys_own():
    thinking = {"role": "assistant", "reasoning_content": "Where?", "content": "Here."}
    rendered = render(small_tokenizer(), [ASK, thinking], [])
    own = [token for token, mine in zip(*rendered, strict=True) if mine]
    assert small_tokenizer().decode(own) == "<think>\nWhere?\n</think>\nHere.<|im_end|>"


def test_arguments_that_are_text_are_rendered_as_they_were_written():
    message = {"role": "assistant", "tool_calls": [{"function": {"name": "find", "arguments": '{"name":"budget"}'}}]}
    text = small_tokenizer().decode(render(small_tokenizer(), [ASK, message], []).ids)
    assert '"arguments": {"name":"budget"}}' in text


def test_an_unknown_template_without_marks_is_refused_with_advice():
    tokenizer = qwen3_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    with pytest.raises(ConfigFailure) as refused:
        prepare_template(tokenizer)
    assert "{% generation %}" in refused.value.advice
    tokenizer.chat_template = None
    with pytest.raises(ConfigFailure, match="has no chat template"):
        prepare_template(tokenizer)


def test_runs_of_ones():
    assert runs_of_ones([0, 1, 1, 0, 1]) == [range(1, 3), range(4, 5)]
    assert runs_of_ones([]) == []
    assert runs_of_ones([1, 1]) == [range(2)]
