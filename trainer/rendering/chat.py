"""Renders chats through the model's own template and marks the tokens that the policy generated.

Every algorithm takes its tokens and its loss mask from here. A token counts as the policy's if it lies between the
template's {% generation %} markers and was sampled: not the generation prompt, nor what the template writes after the
end-of-turn token (ChatML's newline), which some templates include in their markers. Without markers, a turn is the
difference between the chat that ends with it and its prompt.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase
from trl.chat_template_utils import has_generation_markers

from contract.messages import Message, ToolSchema, is_turn
from trainer.failures import ConfigFailure
from trainer.rendering.message_form import ANSWER, QUESTION, THINK, THOUGHT, in_template_form


class Rendered(NamedTuple):
    """A chat as the model sees it."""

    ids: list[int]
    mask: list[int]
    """1 where the policy wrote the token, otherwise 0; as long as `ids`."""

    @property
    def policy_tokens(self) -> int:
        return sum(self.mask)


def render(tokenizer: PreTrainedTokenizerBase, messages: list[Message], tools: list[ToolSchema]) -> Rendered:
    """Render the whole chat, with every assistant message in the mask. Raises ValueError if the template refuses it."""
    if not has_generation_markers(tokenizer.chat_template):
        return render_by_prefixes(tokenizer, messages, tools)
    encoded: Any = tokenizer.apply_chat_template(
        in_template_form(tokenizer, messages),
        tools=[*tools] or None,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    ids, mask = encoded["input_ids"], list(encoded["assistant_masks"])
    prompt, end = generation_prompt(tokenizer), end_of_turn(tokenizer)
    for turn in runs_of_ones(mask):
        policy_span = sampled(ids, turn, prompt=prompt, end=end)
        mask[turn.start : policy_span.start] = [0] * (policy_span.start - turn.start)
        mask[policy_span.stop : turn.stop] = [0] * (turn.stop - policy_span.stop)
    return Rendered(ids, mask)


def render_by_prefixes(
    tokenizer: PreTrainedTokenizerBase, messages: list[Message], tools: list[ToolSchema]
) -> Rendered:
    """Render a chat with a template without markers. Raises ValueError if it renders earlier turns differently from last ones."""
    full = written(tokenizer, messages, tools)
    mask = bytearray(len(full))
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        prompt = written(tokenizer, messages[:index], tools, add_generation_prompt=True)
        through_turn = written(tokenizer, messages[: index + 1], tools)
        end = end_of_text(tokenizer, through_turn, begin=len(prompt))
        if through_turn.startswith(written(tokenizer, messages[:index], tools)):
            check_prompt(through_turn, prompt)
        if not through_turn.startswith(prompt) or not full.startswith(through_turn[:end]):
            raise ValueError("it rewrites earlier turns, so what the policy wrote can't be distinguished from the rest")
        mask[len(prompt) : end] = b"\1" * (end - len(prompt))
    encoded: Any = tokenizer(full, add_special_tokens=False, return_offsets_mapping=True)
    offsets = encoded["offset_mapping"]
    return Rendered(encoded["input_ids"], [int(a < b and mask[a] and mask[b - 1]) for a, b in offsets])


def render_completion(
    tokenizer: PreTrainedTokenizerBase, prompt: list[Message], completion: list[Message], tools: list[ToolSchema]
) -> Rendered:
    """Render prompt and completion, with only the policy's turns of the completion in the mask. Raises ValueError if it can't be learned from.

    Ends with the last policy token: a tool result after it carries no loss, and rewards are read there.
    """
    rendered = render(tokenizer, prompt + completion, tools)
    turns = runs_of_ones(rendered.mask)
    assistants = [index for index, message in enumerate(prompt + completion) if message["role"] == "assistant"]
    if len(turns) != len(assistants):
        raise ValueError(f"the template marks {len(turns)} assistant turns, expected {len(assistants)}")
    in_completion = [(turn, index - len(prompt)) for turn, index in zip(turns, assistants, strict=True)]
    policy_turns = [turn for turn, index in in_completion if index >= 0 and is_turn(completion[index])]
    texts = [str(tokenizer.decode(rendered.ids[turn.start : turn.stop])) for turn in policy_turns]
    check_turns(texts, [message for message in completion if is_turn(message)])
    if has_generation_markers(tokenizer.chat_template):
        check_prompts(tokenizer, prompt, completion, tools)
    end = policy_turns[-1].stop
    mask = [0] * end
    for turn in policy_turns:
        mask[turn.start : turn.stop] = [1] * len(turn)
    return Rendered(rendered.ids[:end], mask)


def check_prompts(
    tokenizer: PreTrainedTokenizerBase, prompt: list[Message], completion: list[Message], tools: list[ToolSchema]
) -> None:
    """Raises ValueError if the completion's turns aren't rendered after their actual generation prompts.

    For turns without reasoning, checking the first one is enough.
    """
    messages = prompt + completion
    turns = [index for index, message in enumerate(messages) if is_turn(message) and index >= len(prompt)]
    if not any(map(has_reasoning, messages)):
        turns = turns[:1]
    chat = written(tokenizer, messages, tools)
    for index in filter(None, turns):  # nothing precedes a chat's first message
        check_prompt(chat, written(tokenizer, messages[:index], tools, add_generation_prompt=True))


def render_prompt(tokenizer: PreTrainedTokenizerBase, messages: list[Message], tools: list[ToolSchema]) -> list[int]:
    """Render the chat up to the start of the policy's next turn."""
    encoded: Any = tokenizer.apply_chat_template(
        in_template_form(tokenizer, messages), tools=[*tools] or None, add_generation_prompt=True, return_dict=True
    )
    ids: list[int] = encoded["input_ids"]
    return ids


def render_continuation(
    tokenizer: PreTrainedTokenizerBase, messages: list[Message], tools: list[ToolSchema]
) -> list[int]:
    """What the template writes between the last assistant message and the start of the policy's next turn.

    For chats whose turns are kept as sampled tokens. Raises ConfigFailure for a template that rewrites earlier turns.
    """
    last = max(index for index, message in enumerate(messages) if message["role"] == "assistant")
    before = written(tokenizer, messages[: last + 1], tools)
    full = written(tokenizer, messages, tools, add_generation_prompt=True)
    begun = written(tokenizer, messages[:last], tools) if last else ""
    # Only in the last turn: calls and answers may end with different tokens (Llama 3.1).
    end = end_of_text(tokenizer, before, begin=len(begun) if before.startswith(begun) else 0)
    if not full.startswith(before[:end]):
        raise ConfigFailure(
            "model: its chat template rewrites earlier turns, so a chat can't continue from the sampled tokens.",
            advice="Use a template that only ever adds to the end of a chat.",
        )
    ids: list[int] = tokenizer(full[end:], add_special_tokens=False)["input_ids"]
    return ids


def written(tokenizer: PreTrainedTokenizerBase, messages: list[Message], tools: list[ToolSchema], **more: Any) -> str:
    """The chat as text, rendered by the template."""
    template: Any = tokenizer.apply_chat_template
    return str(template(in_template_form(tokenizer, messages), tools=[*tools] or None, tokenize=False, **more))


def writes_reasoning(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the template renders the reasoning of a chat's last turn; many, such as Llama 3's, drop it."""
    thought = "Is it so?"
    answer: Message = {"role": "assistant", "content": ANSWER, "reasoning_content": thought}
    return thought in written(tokenizer, [PROBE[0], answer], [])


def end_of_text(tokenizer: PreTrainedTokenizerBase, chat: str, *, begin: int) -> int:
    """The end of the last turn of `chat`, which starts at `begin` or later: what templates write after its end token isn't the policy's."""
    end = end_of_turn(tokenizer)
    mark = "" if end is None else str(tokenizer.decode([end]))
    start = chat.rfind(mark, begin)
    return start + len(mark) if mark and start >= 0 else len(chat)


def sampled(ids: list[int], turn: range, *, prompt: list[int], end: int | None) -> range:
    """The sampled part of a marked turn: after the generation prompt, up to and including its end token."""
    best, inside = 0, 0
    for offset in range(min(len(prompt), turn.start) + 1):  # prompt tokens before the mark
        matched = common_beginning(ids[turn.start - offset : turn.stop], prompt)
        if matched >= offset and matched > best:
            best, inside = matched, matched - offset
    ends = [index for index in turn if ids[index] == end]
    return range(turn.start + inside, ends[-1] + 1 if ends else turn.stop)


def common_beginning(one: list[int], other: list[int]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def turn_ends(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Tokens that may end a turn. For some models (Gemma), the tokenizer's EOS ends a text, and turns end with another token."""
    return frozenset({tokenizer.eos_token_id, end_of_turn(tokenizer)} - {None})


PROBE: list[Message] = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]


def end_of_turn(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """The special token that ends assistant messages in the template; None if there is none.

    The tokenizer's EOS if it follows a message even within a chat, possibly after other tokens (Cohere's Command A); otherwise the first one.
    """
    return _end_of_turn(tokenizer, str(tokenizer.chat_template))


def generation_prompt(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The generation prompt, such as ChatML's <|im_start|>assistant and a newline."""
    return _generation_prompt(tokenizer, str(tokenizer.chat_template))


@lru_cache(maxsize=16)
def _end_of_turn(tokenizer: PreTrainedTokenizerBase, _: str) -> int | None:
    special = {number for number, token in tokenizer.added_tokens_decoder.items() if token.special}

    def special_after(chat: list[Message]) -> list[int]:
        text = str(tokenizer.apply_chat_template(chat, tokenize=False)).partition(ANSWER)[2].partition(QUESTION)[0]
        return [number for number in tokenizer(text, add_special_tokens=False)["input_ids"] if number in special]

    if tokenizer.eos_token_id in special_after([*PROBE, PROBE[0]]):
        return int(tokenizer.eos_token_id)
    return next(iter(special_after(PROBE)), None)


@lru_cache(maxsize=16)
def _generation_prompt(tokenizer: PreTrainedTokenizerBase, _: str) -> list[int]:
    template: Any = tokenizer.apply_chat_template
    unprompted, prompted = (
        template(PROBE[:1], add_generation_prompt=prompted, return_dict=True)["input_ids"] for prompted in (False, True)
    )
    ids: list[int] = prompted[common_beginning(unprompted, prompted) :]
    return ids


def runs_of_ones(mask: list[int]) -> list[range]:
    """[0, 1, 1, 0, 1] -> [range(1, 3), range(4, 5)]"""
    edges = [0, *mask, 0]
    starts = [i for i in range(len(mask)) if edges[i + 1] and not edges[i]]
    stops = [i + 1 for i in range(len(mask)) if edges[i + 1] and not edges[i + 2]]
    return [range(start, stop) for start, stop in zip(starts, stops, strict=True)]


def check_turns(texts: Sequence[str], messages: Sequence[Message]) -> None:
    """Refuse turns that the template alters. texts: the rendered text of each turn in `messages`."""
    for text, message in zip(texts, messages, strict=True):
        check_calls(text, message)
    thoughts = [reasoning_of(message) for message in messages]
    is_kept = [thought in text for text, thought in zip(texts, thoughts, strict=True) if thought]
    if any(is_kept) and not all(is_kept):
        raise ValueError(
            "it leaves out the reasoning of earlier turns, so a policy would learn to go without; choose a model whose template keeps "
            "it, or learn from single turns"
        )


def check_calls(text: str, message: Message) -> None:
    """Refuse a turn whose call is dropped: the policy would learn to say nothing instead."""
    for call in message.get("tool_calls") or []:
        name = call["function"]["name"]
        if name not in text:
            raise ValueError(f"it leaves out the call of {name!r}; choose a model whose template writes every call")


def check_prompt(chat: str, prompt: str) -> None:
    """Refuse a chat whose text before a turn differs from that turn's prompt, except for trailing line breaks.

    Some templates prompt with <think> but don't render it in the chat, or change an earlier turn once another follows.
    """
    expected = prompt.rstrip()
    if not chat.startswith(expected):
        end = expected.rpartition("\n")[2][-40:]
        raise ValueError(
            f"what it renders before a turn differs from that turn's prompt, which ends in {end!r}; choose a model whose "
            "template only ever adds to the end of a chat"
        )


def has_reasoning(message: Message) -> bool:
    return bool(reasoning_of(message))


def reasoning_of(message: Message) -> str:
    """The reasoning, separate from or within the content; "" if there is none."""
    content = message.get("content")
    inside = content.partition(THOUGHT)[0] if isinstance(content, str) and THOUGHT in content else ""
    thought = message.get("reasoning_content") or inside.rpartition(THINK)[2]
    return thought.strip() if isinstance(thought, str) else ""
