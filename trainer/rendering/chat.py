"""Renders chats through the model's own template and marks the tokens that the policy generated.

Every algorithm takes its tokens and its loss mask from here. A token counts as the policy's when it lies between the
template's {% generation %} markers, and was sampled: what a turn is prompted with was not, nor what the template writes after the
end-of-turn token (ChatML's newline), and some templates have one or the other between their markers.
"""

from functools import lru_cache
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase
from trl.chat_template_utils import add_response_schema, get_training_chat_template

from trainer.failures import ConfigFailure
from trainer.records import Message, ToolSchema


class Rendered(NamedTuple):
    """A chat as the model sees it."""

    ids: list[int]
    mask: list[int]
    """1 where the policy wrote the token, else 0; as long as `ids`."""

    @property
    def policy_tokens(self) -> int:
        return sum(self.mask)


def prepare_template(tokenizer: PreTrainedTokenizerBase) -> None:
    """Give the tokenizer a chat template that marks what the assistant generates and never rewrites earlier turns.

    Known templates (Qwen, Llama, Gemma, GLM, …) are exchanged for TRL's training variant of the same format, and the matching
    parser of tool calls is set. Raises ConfigFailure for a template that can do neither.
    """
    if not tokenizer.chat_template:
        raise ConfigFailure(
            "model: its tokenizer has no chat template.",
            advice="Use an instruction-tuned model, or add a chat_template to its tokenizer.",
        )
    if getattr(tokenizer, "response_template", None) is None:
        try:
            add_response_schema(tokenizer)
        except ValueError:
            tokenizer.response_template = None  # tool calls cannot be read: training works, tools in rollouts do not
    try:
        tokenizer.chat_template = get_training_chat_template(tokenizer) or tokenizer.chat_template
    except ValueError:
        raise ConfigFailure(
            "model: its chat template does not mark what the assistant generates, and its family is unknown.",
            advice="Put {% generation %} and {% endgeneration %} around the assistant's text in the chat template.",
        ) from None


def render(tokenizer: PreTrainedTokenizerBase, messages: list[Message], tools: list[ToolSchema]) -> Rendered:
    """The whole chat, with every assistant message marked. Raises ValueError for what the template refuses."""
    encoded: Any = tokenizer.apply_chat_template(
        messages, tools=[*tools] or None, return_dict=True, return_assistant_tokens_mask=True
    )
    ids, mask = encoded["input_ids"], list(encoded["assistant_masks"])
    prompt, end = generation_prompt(tokenizer), end_of_turn(tokenizer)
    for turn in runs_of_ones(mask):
        own = sampled(ids, turn, prompt=prompt, end=end)
        mask[turn.start : own.start] = [0] * (own.start - turn.start)
        mask[own.stop : turn.stop] = [0] * (turn.stop - own.stop)
    return Rendered(ids, mask)


def render_completion(
    tokenizer: PreTrainedTokenizerBase, prompt: list[Message], completion: list[Message], tools: list[ToolSchema]
) -> Rendered:
    """Prompt and completion, with only the completion's assistant messages marked.

    Ends with the last policy token: a tool result after it is nobody's to learn, and a reward is read there.
    """
    whole = render(tokenizer, prompt + completion, tools)
    turns = runs_of_ones(whole.mask)
    assistants = [message["role"] == "assistant" for message in prompt + completion]
    if len(turns) != sum(assistants):
        raise ValueError(f"the template marks {len(turns)} assistant turns, expected {sum(assistants)}")
    own = turns[sum(assistants[: len(prompt)]) :]
    begin, end = own[0].start, own[-1].stop
    mask = [0] * begin + whole.mask[begin:end]
    return Rendered(whole.ids[:end], mask)


def render_prompt(tokenizer: PreTrainedTokenizerBase, messages: list[Message], tools: list[ToolSchema]) -> list[int]:
    """The chat up to where the policy's next turn begins."""
    encoded: Any = tokenizer.apply_chat_template(
        messages, tools=[*tools] or None, add_generation_prompt=True, return_dict=True
    )
    ids: list[int] = encoded["input_ids"]
    return ids


def render_continuation(
    tokenizer: PreTrainedTokenizerBase, messages: list[Message], tools: list[ToolSchema]
) -> list[int]:
    """What the template writes between the end of the last assistant message and where the policy's next turn begins.

    For a chat whose turns are kept as the tokens that were sampled. Raises ConfigFailure for a template that rewrites them.
    """
    last = max(index for index, message in enumerate(messages) if message["role"] == "assistant")
    template: Any = tokenizer.apply_chat_template
    before: str = template(messages[: last + 1], tools=[*tools] or None, tokenize=False)
    whole: str = template(messages, tools=[*tools] or None, tokenize=False, add_generation_prompt=True)
    begun: str = template(messages[:last], tools=[*tools] or None, tokenize=False) if last else ""
    end_id = end_of_turn(tokenizer)
    mark = "" if end_id is None else str(tokenizer.decode([end_id]))
    # Only in the last turn: a call may end with another token than an answer (Llama 3.1), and the one before it with this one.
    place = before.rfind(mark, len(begun) if before.startswith(begun) else 0)
    end = place + len(mark) if mark and place >= 0 else len(before)
    if not whole.startswith(before[:end]):
        raise ConfigFailure(
            "model: its chat template rewrites earlier turns, so a chat cannot go on from the tokens that were sampled.",
            advice="Use a template that only ever adds to the end of a chat.",
        )
    ids: list[int] = tokenizer(whole[end:], add_special_tokens=False)["input_ids"]
    return ids


def sampled(ids: list[int], turn: range, *, prompt: list[int], end: int | None) -> range:
    """The part of a marked turn that the policy wrote: after the tokens it was prompted with, up to the one that ends it."""
    best, inside = 0, 0
    for before in range(min(len(prompt), turn.start) + 1):  # so many tokens of the prompt stand before the mark
        matched = common_beginning(ids[turn.start - before : turn.stop], prompt)
        if matched >= before and matched > best:
            best, inside = matched, matched - before
    ends = [index for index in turn if ids[index] == end]
    return range(turn.start + inside, ends[-1] + 1 if ends else turn.stop)


def common_beginning(one: list[int], other: list[int]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def turn_ends(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Tokens with which a turn may end. For some models (Gemma) the tokenizer's own is the end of a text, and turns have another."""
    return frozenset({tokenizer.eos_token_id, end_of_turn(tokenizer)} - {None})


QUESTION, ANSWER = "Is it?", "It is so."
PROBE: list[Message] = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]


def end_of_turn(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The special token with which the template ends what the assistant said; None where it has none.

    The tokenizer's own where that follows even in the middle of a chat, perhaps after others (Cohere's Command A); else the first one.
    """
    return _end_of_turn(tokenizer, str(tokenizer.chat_template))


def generation_prompt(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """What the template prompts a turn with, such as ChatML's <|im_start|>assistant and a newline."""
    return _generation_prompt(tokenizer, str(tokenizer.chat_template))


@lru_cache(maxsize=16)
def _end_of_turn(tokenizer: PreTrainedTokenizerBase, _: str) -> int | None:
    special = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}

    def after(chat: list[Message]) -> list[int]:
        text = str(tokenizer.apply_chat_template(chat, tokenize=False)).partition(ANSWER)[2].partition(QUESTION)[0]
        return [number for number in tokenizer(text, add_special_tokens=False)["input_ids"] if number in special]

    if tokenizer.eos_token_id in after([*PROBE, PROBE[0]]):
        return int(tokenizer.eos_token_id)
    return next(iter(after(PROBE)), None)


@lru_cache(maxsize=16)
def _generation_prompt(tokenizer: PreTrainedTokenizerBase, _: str) -> list[int]:
    template: Any = tokenizer.apply_chat_template
    without, prompted = (
        template(PROBE[:1], add_generation_prompt=each, return_dict=True)["input_ids"] for each in (False, True)
    )
    ids: list[int] = prompted[common_beginning(without, prompted) :]
    return ids


def runs_of_ones(mask: list[int]) -> list[range]:
    """[0, 1, 1, 0, 1] -> [range(1, 3), range(4, 5)]"""
    edges = [0, *mask, 0]
    starts = [i for i in range(len(mask)) if edges[i + 1] and not edges[i]]
    stops = [i + 1 for i in range(len(mask)) if edges[i + 1] and not edges[i + 2]]
    return [range(start, stop) for start, stop in zip(starts, stops, strict=True)]
