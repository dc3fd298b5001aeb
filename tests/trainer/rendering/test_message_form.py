"""Recorded chats are adapted to each template: ids of calls, arguments, and reasoning."""

from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast
from trl import chat_template_utils

from tests.trainer.policies import SMALLEST, TOOLS, call, small_tokenizer
from tests.trainer.rendering.test_families import CHAT, FIRST, FOUND, YES, tokenizer_with
from trainer.models.scratch import make_model
from trainer.rendering.chat import render_completion, render_continuation, render_prompt, runs_of_ones, written
from trainer.rendering.message_form import in_template_form, with_short_ids
from trainer.rendering.templates import prepare_template

# In the style of Mistral's: no generation prompt, and ids of nine letters and digits in calls and their results.
MISTRAL = """{{ bos_token }}{% for message in messages %}\
{% if message.role == "user" %}[INST] {{ message.content }} [/INST]\
{% elif message.role == "tool" %}\
{% if message.tool_call_id is not defined or message.tool_call_id|length != 9 %}{{ raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}{% endif %}\
[TOOL_RESULTS] {"content": {{ message.content|tojson }}, "call_id": "{{ message.tool_call_id }}"}[/TOOL_RESULTS]\
{% elif message.tool_calls %}[TOOL_CALLS] [{% for tool_call in message.tool_calls %}\
{% if tool_call.id is not defined or tool_call.id|length != 9 %}{{ raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}{% endif %}\
{{ (tool_call.function|tojson)[:-1] }}, "id": "{{ tool_call.id }}"}{{ ", " if not loop.last }}{% endfor %}]{{ eos_token }}\
{% else %} {{ message.content }}{{ eos_token }}{% endif %}{% endfor %}"""


def mistral() -> PreTrainedTokenizerFast:
    tokenizer = tokenizer_with(MISTRAL, "</s>")
    prepare_template(tokenizer)
    return tokenizer


def calling(*ids: str | None, **arguments: str) -> dict[str, Any]:
    (made,) = call("find", **arguments)["tool_calls"]
    return {"role": "assistant", "content": None, "tool_calls": [{**made, "id": call_id} for call_id in ids]}


def result(identifier: str | None, content: str = "f12") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identifier, "content": content}


def own_turns(tokenizer: PreTrainedTokenizerFast, ids: list[int], mask: list[int]) -> list[str]:
    return [tokenizer.decode(ids[turn.start : turn.stop]) for turn in runs_of_ones(mask)]


@pytest.mark.parametrize("ids", [("call_a", "toolu_01ABCdef"), ("", ""), ("chatcmpl-tool-1", "x")])
def test_calls_with_any_ids_are_written_by_a_template_of_nine_characters(ids: tuple[str, str]):
    tokenizer = mistral()
    turns = [calling(*ids, name="a"), result(ids[0], "one"), result(ids[1], "two"), YES]
    rendered = render_completion(tokenizer, [FIRST], turns, TOOLS)
    function = '{"name": "find", "arguments": {"name": "a"}, "id": "%s"}'
    assert tokenizer.decode(rendered.ids) == (
        "<bos>[INST] Find the budget. [/INST]"
        f"[TOOL_CALLS] [{function % '000000001'}, {function % '000000002'}]</s>"
        '[TOOL_RESULTS] {"content": "one", "call_id": "000000001"}[/TOOL_RESULTS]'
        '[TOOL_RESULTS] {"content": "two", "call_id": "000000002"}[/TOOL_RESULTS]'
        " Yes.</s>"
    )
    assert own_turns(tokenizer, *rendered) == [
        f"[TOOL_CALLS] [{function % '000000001'}, {function % '000000002'}]</s>",
        " Yes.</s>",
    ]


def test_ids_do_not_change_as_the_chat_grows():
    tokenizer = mistral()
    chat = [FIRST, calling("call_1"), result("call_1"), YES, FIRST, calling("000000001"), result("000000001"), YES]
    whole = written(tokenizer, chat, TOOLS)
    for length in range(1, len(chat)):
        assert whole.startswith(written(tokenizer, chat[:length], TOOLS))
    assert whole.count('"000000001"') == whole.count('"000000002"') == 2
    continuation = tokenizer.decode(render_continuation(tokenizer, chat[:3], TOOLS))
    assert continuation == '[TOOL_RESULTS] {"content": "f12", "call_id": "000000001"}[/TOOL_RESULTS]'


def test_ids_that_fit_stay():
    chat = [FIRST, calling("D681PevKs", "call_2"), result("call_2"), result("D681PevKs")]
    messages = with_short_ids(chat)
    assert [call["id"] for call in messages[1]["tool_calls"]] == ["D681PevKs", "000000001"]
    assert [message["tool_call_id"] for message in messages[2:]] == ["000000001", "D681PevKs"]


def test_arguments_that_are_text_are_not_written_as_one_more_string():
    """OpenAI's protocol has arguments as text, which Mistral's templates would quote again."""
    made = calling("call_1")
    made["tool_calls"][0]["function"]["arguments"] = '{"name": "budget"}'
    text = written(mistral(), [FIRST, made, result("call_1")], TOOLS)
    assert '"arguments": {"name": "budget"}' in text


TAKE_OBJECTS = ["qwen3_5_think", "qwen3_6", "glm4moe", "gptoss", "nemotron_3_nano", "lfm2_v2", "qwen2_5", "llama3_1"]


@pytest.mark.parametrize("family", TAKE_OBJECTS)
def test_a_call_as_the_protocol_has_it_is_written_like_one_with_an_object(family: str):
    tokenizer = tokenizer_with(getattr(chat_template_utils, f"{family}_chat_template"), "<|im_end|>")
    prepare_template(tokenizer)
    plain = [FIRST, {**calling("c1", name="budget"), "content": ""}, FOUND]
    text = [FIRST, calling("c1"), FOUND]
    text[1]["tool_calls"][0]["function"]["arguments"] = '{"name": "budget"}'
    assert written(tokenizer, text, TOOLS) == written(tokenizer, plain, TOOLS)


@pytest.mark.parametrize("family", ["qwen3", "small"])
def test_templates_that_take_a_chat_as_it_is_get_it_so(family: str):
    tokenizer = tokenizer_with(chat_template_utils.qwen3_training_chat_template, "<|im_end|>")
    if family == "small":
        tokenizer = small_tokenizer()
    chat = [FIRST, calling("call_1"), result(None), YES]
    chat[1]["tool_calls"][0]["function"]["arguments"] = '{"name":"budget"}'
    assert in_template_form(tokenizer, chat) is chat


def test_a_lone_surrogate_does_not_end_a_run():
    """JSON in a policy's call or from an environment may contain one, for which tokenizers raise an error."""
    tokenizer = small_tokenizer()
    chat = [FIRST, calling("c1", name="a\ud800"), result("c1", "b\udfff"), YES]
    rendered = render_completion(tokenizer, chat[:1], chat[1:], TOOLS)
    assert '"a\N{REPLACEMENT CHARACTER}"' in tokenizer.decode(rendered.ids)
    assert "b\N{REPLACEMENT CHARACTER}" in tokenizer.decode(render_continuation(tokenizer, chat[:3], TOOLS))
    assert chat[2]["content"] == "b\udfff"


R1_END = "<｜end▁of▁sentence｜>"


def r1() -> PreTrainedTokenizerFast:
    tokenizer = tokenizer_with(chat_template_utils.deepseek_r1_distill_chat_template, R1_END)
    prepare_template(tokenizer)
    return tokenizer


R1_TURNS = [
    ({"content": "Yes.", "reasoning_content": "Why so?"}, "Why so?\n</think>\n\nYes."),
    ({"content": "<think>\nWhy so?\n</think>\n\nYes."}, "Why so?\n</think>\n\nYes."),
    ({"content": "Why so?\n</think>\n\nYes."}, "Why so?\n</think>\n\nYes."),
    ({"content": "Yes."}, "\n</think>\n\nYes."),
]


@pytest.mark.parametrize(("thoughts", "written_as"), R1_TURNS)
def test_where_turns_are_prompted_with_a_thought_the_policys_tokens_follow_that_prompt(thoughts: Any, written_as: str):
    """In every turn, and however the reasoning was recorded. The prompt, including <think>, isn't learned from."""
    tokenizer = r1()
    turn = {"role": "assistant", **thoughts}
    chat = [FIRST, turn, CHAT[2], turn]
    rendered = render_completion(tokenizer, [], chat, [])
    assert own_turns(tokenizer, *rendered) == [written_as + R1_END] * 2
    for own, length in zip(runs_of_ones(rendered.mask), (1, 3), strict=True):
        assert rendered.ids[: own.start] == render_prompt(tokenizer, chat[:length], [])


def test_log_probabilities_of_such_turns_are_those_of_their_tokens_after_what_was_sampled():
    tokenizer = r1()
    model = make_model(SMALLEST, tokenizer, 0).eval()
    chat = [FIRST, {"role": "assistant", "content": "Yes.", "reasoning_content": "Why so?"}]
    rendered = render_completion(tokenizer, chat[:1], chat[1:], [])
    prompt = render_prompt(tokenizer, chat[:1], [])
    answer = tokenizer("Why so?\n</think>\n\nYes." + R1_END, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        by_hand = model(torch.tensor([prompt + answer])).logits[0].log_softmax(-1)
        own = model(torch.tensor([rendered.ids])).logits[0].log_softmax(-1)
    wanted = sum(by_hand[len(prompt) + place - 1, token] for place, token in enumerate(answer))
    logprob = sum(own[at - 1, rendered.ids[at]] for at, mine in enumerate(rendered.mask) if mine)
    assert float(logprob) == pytest.approx(float(wanted), abs=1e-5)


THINKS = [{**message, "reasoning_content": why} for message, why in ((CHAT[1], "Why so?"), (CHAT[3], "Hm hm?"))]


@pytest.mark.parametrize("family", ["glm4moe", "nemotron_3_nano", "gptoss", "lfm2_2_5"])
def test_turns_that_lose_their_reasoning_once_another_follows_are_refused(family: str):
    """In context, a policy would learn to answer without reasoning; individually, each turn is learned after its own prompt."""
    end = "<|return|>" if family == "gptoss" else "<|im_end|>"
    tokenizer = tokenizer_with(getattr(chat_template_utils, f"{family}_chat_template"), end)
    prepare_template(tokenizer)
    first, second = THINKS
    with pytest.raises(ValueError, match="leaves out the reasoning of earlier turns"):
        render_completion(tokenizer, [FIRST], [first, CHAT[2], second], [])
    prompt = [FIRST, first, CHAT[2]]
    alone = render_completion(tokenizer, prompt, [second], [])
    assert alone.ids[: runs_of_ones(alone.mask)[0].start] == render_prompt(tokenizer, prompt, [])


@pytest.mark.parametrize(("family", "chat"), [("deepseekv3", CHAT), ("qwen3_5_nothink", [FIRST, THINKS[0]])])
def test_turns_that_do_not_follow_their_prompt_are_refused(family: str, chat: list[dict[str, Any]]):
    """The first kind prompts with <think> and never writes it, the second prompts with an empty thought."""
    tokenizer = tokenizer_with(getattr(chat_template_utils, f"{family}_chat_template"), "<|im_end|>")
    prepare_template(tokenizer)
    with pytest.raises(ValueError, match=r"differs from that turn's prompt, which ends in '.*think>'"):
        render_completion(tokenizer, [], chat, [])
