"""Renders chats through the model's own template and marks the tokens that the policy generated.

Every algorithm takes its tokens and its loss mask from here. A token counts as the policy's when it lies between the
template's {% generation %} markers, and was sampled: what a turn is prompted with was not, nor what the template writes after the
end-of-turn token (ChatML's newline), and some templates have one or the other between their markers. Where a template has no markers,
a turn is what the chat that ends with it has beyond the prompt that asks for it.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase
from trl.chat_template_utils import has_generation_markers

from contract.messages import Message, ToolSchema
from trainer.failures import ConfigFailure
from trainer.rendering.message_form import ANSWER, QUESTION, THINK, THOUGHT, spelled


class Rendered(NamedTuple):
    """A chat as the model sees it."""

    ids: list[int]
    mask: list[int]
    """1 where the policy wrote the token, else 0; as long as `ids`."""

    @property
    def policy_tokens(self) -> int:
        return sum(self.mask)


def render(tokenizer: PreTrainedTokenizerBase, messages: list[Message], tools: list[ToolSchema]) -> Rendered:
    """The whole chat, with every assistant message marked. Raises ValueError for what the template refuses."""
    if not has_generation_markers(tokenizer.chat_template):
        return render_by_prefixes(tokenizer, messages, tools)
    encoded: Any = tokenizer.apply_chat_template(
        spelled(tokenizer, messages), tools=[*tools] or None, return_dict=True, return_assistant_tokens_mask=True
    )
    ids, mask = encoded["input_ids"], list(encoded["assistant_masks"])
    prompt, end = generation_prompt(tokenizer), end_of_turn(tokenizer)
    for turn in runs_of_ones(mask):
        own = sampled(ids, turn, prompt=prompt, end=end)
        mask[turn.start : own.start] = [0] * (own.start - turn.start)
        mask[own.stop : turn.stop] = [0] * (turn.stop - own.stop)
    return Rendered(ids, mask)


def render_by_prefixes(
    tokenizer: PreTrainedTokenizerBase, messages: list[Message], tools: list[ToolSchema]
) -> Rendered:
    """The same through a template without markers. Raises ValueError for one that writes earlier turns otherwise than when they were the last."""
    whole = written(tokenizer, messages, tools)
    own = bytearray(len(whole))
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        prompt = written(tokenizer, messages[:index], tools, add_generation_prompt=True)
        until = written(tokenizer, messages[: index + 1], tools)
        end = end_of_text(tokenizer, until, begin=len(prompt))
        if until.startswith(written(tokenizer, messages[:index], tools)):
            check_prompt(until, prompt)
        if not until.startswith(prompt) or not whole.startswith(until[:end]):
            raise ValueError("it rewrites earlier turns, so what the policy wrote cannot be told from the rest")
        own[len(prompt) : end] = b"\1" * (end - len(prompt))
    encoded: Any = tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
    places = encoded["offset_mapping"]
    return Rendered(encoded["input_ids"], [int(a < b and own[a] and own[b - 1]) for a, b in places])


def render_completion(
    tokenizer: PreTrainedTokenizerBase, prompt: list[Message], completion: list[Message], tools: list[ToolSchema]
) -> Rendered:
    """Prompt and completion, with only the completion's assistant messages marked. Raises ValueError for what cannot be learned from.

    Ends with the last policy token: a tool result after it is nobody's to learn, and a reward is read there.
    """
    whole = render(tokenizer, prompt + completion, tools)
    turns = runs_of_ones(whole.mask)
    assistants = [message["role"] == "assistant" for message in prompt + completion]
    if len(turns) != sum(assistants):
        raise ValueError(f"the template marks {len(turns)} assistant turns, expected {sum(assistants)}")
    own = turns[sum(assistants[: len(prompt)]) :]
    texts = [str(tokenizer.decode(whole.ids[turn.start : turn.stop])) for turn in own]
    check_turns(texts, [message for message in completion if message["role"] == "assistant"])
    if has_generation_markers(tokenizer.chat_template):
        check_prompts(tokenizer, prompt, completion, tools)
    begin, end = own[0].start, own[-1].stop
    mask = [0] * begin + whole.mask[begin:end]
    return Rendered(whole.ids[:end], mask)


def check_prompts(
    tokenizer: PreTrainedTokenizerBase, prompt: list[Message], completion: list[Message], tools: list[ToolSchema]
) -> None:
    """Raises ValueError where the completion's turns are not written after what a policy is prompted with there.

    Of turns without reasoning the first one tells of all.
    """
    messages = prompt + completion
    turns = [index for index, message in enumerate(messages) if message["role"] == "assistant" and index >= len(prompt)]
    if not any(map(thinks, messages)):
        turns = turns[:1]
    chat = written(tokenizer, messages, tools)
    for index in filter(None, turns):  # nothing is before a chat's first message
        check_prompt(chat, written(tokenizer, messages[:index], tools, add_generation_prompt=True))


def render_prompt(tokenizer: PreTrainedTokenizerBase, messages: list[Message], tools: list[ToolSchema]) -> list[int]:
    """The chat up to where the policy's next turn begins."""
    encoded: Any = tokenizer.apply_chat_template(
        spelled(tokenizer, messages), tools=[*tools] or None, add_generation_prompt=True, return_dict=True
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
    before = written(tokenizer, messages[: last + 1], tools)
    whole = written(tokenizer, messages, tools, add_generation_prompt=True)
    begun = written(tokenizer, messages[:last], tools) if last else ""
    # Only in the last turn: a call may end with another token than an answer (Llama 3.1), and the one before it with this one.
    end = end_of_text(tokenizer, before, begin=len(begun) if before.startswith(begun) else 0)
    if not whole.startswith(before[:end]):
        raise ConfigFailure(
            "model: its chat template rewrites earlier turns, so a chat cannot go on from the tokens that were sampled.",
            advice="Use a template that only ever adds to the end of a chat.",
        )
    ids: list[int] = tokenizer(whole[end:], add_special_tokens=False)["input_ids"]
    return ids


def written(tokenizer: PreTrainedTokenizerBase, messages: list[Message], tools: list[ToolSchema], **more: Any) -> str:
    """The chat as the template spells it."""
    template: Any = tokenizer.apply_chat_template
    return str(template(spelled(tokenizer, messages), tools=[*tools] or None, tokenize=False, **more))


def writes_reasoning(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the template writes the reasoning of a chat's last turn; many, such as Llama 3's, pass over it."""
    thought = "Is it so?"
    answer: Message = {"role": "assistant", "content": ANSWER, "reasoning_content": thought}
    return thought in written(tokenizer, [PROBE[0], answer], [])


def end_of_text(tokenizer: PreTrainedTokenizerBase, chat: str, *, begin: int) -> int:
    """Where the last turn of `chat`, which begins at `begin` or later, ends: what templates write after its end token is not the policy's."""
    end = end_of_turn(tokenizer)
    mark = "" if end is None else str(tokenizer.decode([end]))
    place = chat.rfind(mark, begin)
    return place + len(mark) if mark and place >= 0 else len(chat)


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


def check_turns(texts: Sequence[str], said: Sequence[Message]) -> None:
    """texts: what the template wrote for each of the turns, `said`, that a policy is to learn."""
    for text, message in zip(texts, said, strict=True):
        check_calls(text, message)
    thoughts = [reasoning_of(message) for message in said]
    kept = [thought in text for text, thought in zip(texts, thoughts, strict=True) if thought]
    if any(kept) and not all(kept):
        raise ValueError(
            "it leaves out the reasoning of earlier turns, so a policy would learn to go without; choose a model whose template keeps "
            "it, or learn from single turns"
        )


def check_calls(text: str, message: Message) -> None:
    """Where a call is left out: of what remains a policy would learn to say nothing instead."""
    for call in message.get("tool_calls") or []:
        name = call["function"]["name"]
        if name not in text:
            raise ValueError(f"it leaves out the call of {name!r}; choose a model whose template writes every call")


def check_prompt(chat: str, prompt: str) -> None:
    """Where the chat before a turn is not what a policy is prompted with there, line breaks at its end aside.

    Some templates prompt with <think> and do not write that before what was said, or write an earlier turn otherwise once another follows.
    """
    wanted = prompt.rstrip()
    if not chat.startswith(wanted):
        end = wanted.rpartition("\n")[2][-40:]
        raise ValueError(
            f"what it writes before a turn is not what it prompts that turn with, which ends in {end!r}; choose a model whose "
            "template only ever adds to the end of a chat"
        )


def thinks(message: Message) -> bool:
    return bool(reasoning_of(message))


def reasoning_of(message: Message) -> str:
    """As it was given apart from the content, or within; "" where there is none."""
    content = message.get("content")
    inside = content.partition(THOUGHT)[0] if isinstance(content, str) and THOUGHT in content else ""
    thought = message.get("reasoning_content") or inside.rpartition(THINK)[2]
    return thought.strip() if isinstance(thought, str) else ""
