"""For all model families, prompts and the policy's own tokens are distinguished in the same way in training and in rollouts."""

import re

import pytest
from transformers import PreTrainedTokenizerFast
from trl import chat_template_utils

from tests.trainer.policies import SMALLEST, TEXTS, TOOLS, call
from trainer.failures import ConfigFailure
from trainer.models.scratch import train_tokenizer
from trainer.rendering.chat import (
    end_of_turn,
    render,
    render_completion,
    render_continuation,
    render_prompt,
    runs_of_ones,
    turn_ends,
)
from trainer.rendering.response_parser import parse_turn
from trainer.rendering.templates import prepare_template

FIRST = {"role": "user", "content": "Find the budget."}
SECOND = {"role": "user", "content": "And the offer?"}
YES, NO = ({"role": "assistant", "content": word} for word in ("Yes.", "No."))
CHAT = [FIRST, YES, SECOND, NO]
SPECIAL = re.compile(r"<[|｜][^<>|｜ ]{1,40}[|｜]>|<(?:start|end)_of_turn>")

# TRL's training template, the tokenizer's own end token, and what the policy writes to answer "No."
FAMILIES = [
    ("qwen2_5", "<|im_end|>", "No.<|im_end|>"),
    ("qwen3", "<|im_end|>", "<think>\n\n</think>\n\nNo.<|im_end|>"),
    ("qwen3_5_think", "<|im_end|>", "\n</think>\n\nNo.<|im_end|>"),
    ("qwen3_5_nothink", "<|im_end|>", "No.<|im_end|>"),
    ("gemma", "<eos>", "No.<end_of_turn>"),
    ("llama3", "<|eot_id|>", "No.<|eot_id|>"),
    ("phi3", "<|endoftext|>", "No.<|end|>"),
    ("glm4moe", "<|endoftext|>", "\n<think></think>\nNo.<|user|>"),
    ("cohere2", "<|END_OF_TURN_TOKEN|>", "No.<|END_RESPONSE|><|END_OF_TURN_TOKEN|>"),
    ("lfm2", "<|im_end|>", "No.<|im_end|>"),
]


def tokenizer_of(family: str, end: str) -> PreTrainedTokenizerFast:
    """The tests' small vocabulary with the family's template and special tokens."""
    return tokenizer_with(getattr(chat_template_utils, f"{family}_training_chat_template"), end)


def tokenizer_with(template: str, end: str) -> PreTrainedTokenizerFast:
    """A tokenizer as a downloaded model would have it."""
    tokenizer = train_tokenizer(TEXTS, SMALLEST.vocabulary)
    tokenizer.add_special_tokens({"additional_special_tokens": sorted({*SPECIAL.findall(template), end})})
    tokenizer.eos_token, tokenizer.bos_token = end, "<bos>"
    tokenizer.chat_template, tokenizer.response_template = template, None
    return tokenizer


@pytest.mark.parametrize(("family", "end", "answer"), FAMILIES)
def test_the_mask_begins_where_a_rollouts_prompt_ends(family: str, end: str, answer: str):
    tokenizer = tokenizer_of(family, end)
    ids, mask = render(tokenizer, CHAT, [])
    prompt = render_prompt(tokenizer, CHAT[:-1], [])
    own = runs_of_ones(mask)[-1]
    assert ids[: own.start] == prompt
    assert tokenizer.decode(ids[own.start : own.stop]) == answer


@pytest.mark.parametrize(("family", "end", "answer"), FAMILIES)
def test_a_chat_goes_on_from_the_tokens_that_were_sampled(family: str, end: str, answer: str):
    tokenizer = tokenizer_of(family, end)
    ids, mask = render(tokenizer, CHAT, [])
    first = runs_of_ones(mask)[0]
    sampled = ids[: first.stop]
    assert sampled[-1] == end_of_turn(tokenizer)
    assert sampled + render_continuation(tokenizer, CHAT[:-1], []) == render_prompt(tokenizer, CHAT[:-1], [])


@pytest.mark.parametrize(("family", "end", "answer"), FAMILIES)
def test_a_turn_is_read_without_the_token_that_ends_it(family: str, end: str, answer: str):
    tokenizer = tokenizer_of(family, end)
    ids = tokenizer("No.", add_special_tokens=False)["input_ids"]
    last = end_of_turn(tokenizer)
    assert last is not None
    read = parse_turn(tokenizer, [*ids, last], prompt_ids=[], tools=[], ends=frozenset({last}))
    assert read.message == {"role": "assistant", "content": "No."}


CALLS_END_OTHERWISE = """{% for message in messages %}<|start|>{{ message.role }}
{% if message.role == "assistant" %}{% generation %}{{ message.content }}{% if message.tool_calls %}find()<|eom|>{% else %}<|eot|>{% endif %}\
{% endgeneration %}{% else %}{{ message.content }}<|eot|>{% endif %}{% endfor %}\
{% if add_generation_prompt %}<|start|>assistant
{% endif %}"""


def test_a_call_may_end_with_another_token_than_an_answer():
    tokenizer = train_tokenizer(TEXTS, SMALLEST.vocabulary)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|start|>", "<|eot|>", "<|eom|>"]})
    tokenizer.eos_token, tokenizer.chat_template = "<|eot|>", CALLS_END_OTHERWISE
    call = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "find", "arguments": {}}}]}
    chat = [FIRST, call, {"role": "tool", "content": "f12"}]
    continuation = tokenizer.decode(render_continuation(tokenizer, chat, []))
    assert continuation == "<|start|>tool\nf12<|eot|><|start|>assistant\n"


INSTRUCT = """{{ bos_token }}{% for message in messages %}{% if message.role == "user" %}[INST] {{ message.content }} [/INST]\
{% else %} {{ message.content }}{{ eos_token }}{% endif %}{% endfor %}"""
SEPARATED = """{% for message in messages %}<|im_start|>{{ message.role }}<|im_sep|>{{ message.content }}<|im_end|>{% endfor %}\
{% if add_generation_prompt %}<|im_start|>assistant<|im_sep|>{% endif %}"""
UNMARKED = [
    (chat_template_utils.llama3_1_chat_template, "<|eot_id|>", ["Yes.<|eot_id|>", "No.<|eot_id|>"]),
    (chat_template_utils.llama3_2_chat_template, "<|eot_id|>", ["Yes.<|eot_id|>", "No.<|eot_id|>"]),
    (chat_template_utils.gemma4_v5_chat_template, "<turn|>", ["Yes.<turn|>", "No.<turn|>"]),
    (INSTRUCT, "</s>", [" Yes.</s>", " No.</s>"]),
    (SEPARATED, "<|im_end|>", ["Yes.<|im_end|>", "No.<|im_end|>"]),
]


@pytest.mark.parametrize(("template", "end", "turns"), UNMARKED)
def test_turns_are_told_from_the_rest_without_marks_in_the_template(template: str, end: str, turns: list[str]):
    tokenizer = tokenizer_with(template, end)
    prepare_template(tokenizer)
    ids, mask = render(tokenizer, CHAT, [])
    own = runs_of_ones(mask)
    assert [tokenizer.decode(ids[turn.start : turn.stop]) for turn in own] == turns
    assert ids == tokenizer.apply_chat_template(CHAT, return_dict=True)["input_ids"]
    assert ids[: own[-1].start] == render_prompt(tokenizer, CHAT[:-1], [])


CALLS = call("find", name="budget")
FOUND = {"role": "tool", "tool_call_id": "c1", "name": "find", "content": "f12"}


def test_a_tool_result_between_unmarked_turns_is_not_the_policys():
    tokenizer = tokenizer_with(chat_template_utils.llama3_2_chat_template, "<|eot_id|>")
    prepare_template(tokenizer)
    ids, mask = render_completion(tokenizer, [FIRST], [CALLS, FOUND, YES], TOOLS)
    own = [tokenizer.decode(ids[turn.start : turn.stop]) for turn in runs_of_ones(mask)]
    assert own == ['{"name": "find", "parameters": {"name": "budget"}}<|eot_id|>', "Yes.<|eot_id|>"]


@pytest.mark.parametrize("end", ["<|eot_id|>", "<|eom_id|>"])
def test_a_call_is_read_whose_end_is_that_of_its_turn(end: str):
    tokenizer = tokenizer_with(chat_template_utils.llama3_2_chat_template, "<|eot_id|>")
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|eom_id|>"]})
    prepare_template(tokenizer)
    ids, mask = render_completion(tokenizer, [FIRST], [CALLS], TOOLS)
    own = [token for token, mine in zip(ids, mask, strict=True) if mine]
    own[-1] = tokenizer.convert_tokens_to_ids(end)
    prompt, ends = render_prompt(tokenizer, [FIRST], TOOLS), turn_ends(tokenizer) | {own[-1]}
    read = parse_turn(tokenizer, own, prompt_ids=prompt, tools=TOOLS, ends=ends, call_ids="c")
    assert read.error is None
    assert read.message["tool_calls"][0]["function"] == CALLS["tool_calls"][0]["function"]


@pytest.mark.parametrize("family", ["llama3", "phi3", "lfm2", "deepseek_r1_distill"])
def test_a_template_that_leaves_out_calls_is_refused(family: str):
    """Only the end token of such a turn would remain: a policy would learn to say nothing."""
    tokenizer = tokenizer_with(getattr(chat_template_utils, f"{family}_chat_template"), "<|end|>")
    prepare_template(tokenizer)
    with pytest.raises(ValueError, match="leaves out the call of 'find'"):
        render_completion(tokenizer, [FIRST], [CALLS, FOUND, YES], TOOLS)


def test_a_call_that_a_template_of_one_call_leaves_out_is_refused():
    tokenizer = tokenizer_with(chat_template_utils.gptoss_chat_template, "<|return|>")
    prepare_template(tokenizer)
    both = {**CALLS, "tool_calls": CALLS["tool_calls"] + call("send")["tool_calls"]}
    with pytest.raises(ValueError, match="leaves out the call of 'send'"):
        render_completion(tokenizer, [FIRST], [both], TOOLS)


def test_reasoning_is_kept_by_a_template_that_calls_it_thinking():
    tokenizer = tokenizer_with(chat_template_utils.gptoss_chat_template, "<|return|>")
    prepare_template(tokenizer)
    thinks = {**CALLS, "reasoning_content": "Where?", "content": "Wait."}
    ids, mask = render_completion(tokenizer, [FIRST], [thinks], TOOLS)
    own = [token for token, mine in zip(ids, mask, strict=True) if mine]
    assert "<|channel|>analysis<|message|>Where?\nWait.<|end|>" in tokenizer.decode(own)
    prompt = render_prompt(tokenizer, [FIRST], TOOLS)
    read = parse_turn(tokenizer, own, prompt_ids=prompt, tools=TOOLS, ends=turn_ends(tokenizer))
    assert read.message["reasoning_content"] == "Where?\nWait."


@pytest.mark.parametrize("family", ["qwen2_5", "qwen3", "gemma3"])
def test_a_known_format_in_other_words_is_known(family: str):
    """Copies of a model may have its format with another comment, or a branch that no chat reaches."""
    original = getattr(chat_template_utils, f"{family}_chat_template")
    tokenizer = tokenizer_with("{#- Mended. -#}\n" + original, "<|im_end|>")
    prepare_template(tokenizer)
    assert tokenizer.chat_template == getattr(chat_template_utils, f"{family}_training_chat_template")
    assert (tokenizer.response_template is None) == (family == "gemma3")


def test_another_system_prompt_is_another_format():
    """A model's own format is never replaced by that of a related model."""
    original = chat_template_utils.qwen2_5_chat_template
    tokenizer = tokenizer_with(original.replace("created by Alibaba Cloud", "of the coders"), "<|im_end|>")
    prepare_template(tokenizer)
    assert "of the coders" in tokenizer.decode(render(tokenizer, CHAT, []).ids)


def test_unmarked_turns_that_are_rewritten_are_refused():
    forgets = "{% for message in messages %}{{ message.role }}: {{ message.content if loop.last else '' }}<|im_end|>{% endfor %}"
    tokenizer = tokenizer_with(forgets, "<|im_end|>")
    with pytest.raises(ConfigFailure, match="rewrites earlier turns"):
        prepare_template(tokenizer)
