"""Whatever the family of the model: what it is prompted with and what it wrote are told apart alike in training and in rollouts."""

import re

import pytest
from transformers import PreTrainedTokenizerFast
from trl import chat_template_utils

from tests.trainer.policies import SMALLEST, TEXTS
from trainer.models.scratch import train_tokenizer
from trainer.rendering.chat import end_of_turn, render, render_continuation, render_prompt, runs_of_ones
from trainer.rendering.parsing import parse_turn

FIRST = {"role": "user", "content": "Find the budget."}
SECOND = {"role": "user", "content": "And the offer?"}
YES, NO = ({"role": "assistant", "content": word} for word in ("Yes.", "No."))
CHAT = [FIRST, YES, SECOND, NO]
SPECIAL = re.compile(r"<[|｜][^<>|｜ ]{1,40}[|｜]>|<(?:start|end)_of_turn>")

# TRL's training template, the tokenizer's own end, and what the policy writes to answer "No."
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
    template = getattr(chat_template_utils, f"{family}_training_chat_template")
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
