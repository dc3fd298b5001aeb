"""Samples the next turn of many chats at once from a local model.

A custom loop rather than `generate`: each chat has its own random numbers, so that an episode doesn't depend on the others in
its batch; log-probabilities are kept without all logits; and stop requests are checked at every token.
"""

import operator
import random
from collections.abc import Callable, Sequence, Set
from typing import Any, NamedTuple

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from contract.configs import Sampling
from trainer.rollouts.prefill import Prompt, read_pieces

NOTHING = torch.empty(0)


class Memory(NamedTuple):
    """The KV cache of one chat. It can be used once: `recall` empties it."""

    keys: list[torch.Tensor]
    """(heads, n, width) for the chat's first n tokens."""
    values: list[torch.Tensor]

    @property
    def length(self) -> int:
        """n."""
        return self.keys[0].size(1)

    def forget(self) -> None:
        """Free its memory."""
        self.keys.clear()
        self.values.clear()


def can_remember(cache: Any) -> bool:
    """False for models with a sliding window or recurrent state, which reprocess the chat instead."""
    return isinstance(cache, DynamicCache) and all(type(layer) is DynamicLayer for layer in cache.layers)


def remember(cache: Any, index: int, attention: torch.Tensor, length: int) -> Memory:
    """Extract the first `length` tokens of the chat at `index` in a batch; `attention` (B, T) is 1 for tokens in the cache, 0 for padding."""
    columns = attention[index].nonzero().squeeze(1)[:length]
    return Memory(
        [layer.keys[index].index_select(1, columns) for layer in cache.layers],
        [layer.values[index].index_select(1, columns) for layer in cache.layers],
    )


def recall(memories: Sequence[Memory | None]) -> tuple[DynamicCache | None, list[int]]:
    """Combine the chats' memories into one left-padded batch cache, with the token count of each. No cache if all are empty.

    The memories are emptied in the process; otherwise memory use would double.
    """
    lengths = [memory.length if memory else 0 for memory in memories]
    nonempty = [memory for memory in memories if memory]
    if not nonempty:
        return None, lengths
    cache = DynamicCache()
    for layer in range(len(nonempty[0].keys)):
        keys = [memory.keys[layer] if memory else None for memory in memories]
        values = [memory.values[layer] if memory else None for memory in memories]
        cache.update(side_by_side(keys, max(lengths)), side_by_side(values, max(lengths)), layer)
        for memory in nonempty:
            memory.keys[layer] = memory.values[layer] = NOTHING
    return cache, lengths


def side_by_side(chats: Sequence[torch.Tensor | None], length: int) -> torch.Tensor:
    """(heads, n, width) a chat -> (B, heads, length, width), with zeros on the left."""
    example = next(chat for chat in chats if chat is not None)
    combined = example.new_zeros(len(chats), example.size(0), length, example.size(2))
    for index, chat in enumerate(chats):
        if chat is not None:
            combined[index, :, length - chat.size(1) :] = chat
    return combined


class Request(NamedTuple):
    """One chat to continue."""

    ids: list[int]
    """The prompt."""
    limit: int
    """Maximum number of tokens to generate."""
    rng: random.Random
    memory: Memory | None = None
    """KV cache of the prompt's prefix, from the previous turn."""
    sampling: Sampling | None = None
    """Overrides the engine's sampling settings."""


class Sampled(NamedTuple):
    """What the policy wrote."""

    ids: list[int]
    """Ends with the end-of-turn token, unless the limit came first."""
    logprobs: list[float]
    """Nats, under the model's own distribution (temperature 1, no top-p)."""
    memory: Memory | None = None
    """KV cache of the prompt and these ids except the last, which hasn't been processed. None if not supported or not needed."""


@torch.inference_mode()
def sample(
    model: Any,
    requests: Sequence[Request],
    sampling: Sampling,
    *,
    end_ids: Set[int],
    pad_id: int,
    stopped: Callable[[], bool],
    prefill_bytes: int | None = None,
) -> list[Sampled] | None:
    """Sample one turn for each request, in order; None if `stopped()` became true meanwhile.

    prefill_bytes: memory for the activations of the prompts, which are read in pieces if they need more; None: all at once.
    """
    cache, cached = recall([request.memory for request in requests])
    unread = [request.ids[length:] for request, length in zip(requests, cached, strict=True)]
    width = max(map(len, unread))
    ids = torch.tensor([[pad_id] * (width - len(tokens)) + tokens for tokens in unread])
    # A shorter cached prefix is padded on the left; fewer new tokens are padded between the two.
    cached_mask = [[0] * (max(cached) - length) + [1] * length for length in cached]
    new_mask = [[0] * (width - len(tokens)) + [1] * len(tokens) for tokens in unread]
    attention = torch.tensor([*map(operator.add, cached_mask, new_mask)])
    ids, attention = ids.to(model.device), attention.to(model.device)
    positions = (attention.cumsum(1) - 1).clamp(min=0)[:, -width:]
    if prefill_bytes is not None:
        read = read_pieces(model, Prompt(ids, attention, positions), cache, most_bytes=prefill_bytes, stopped=stopped)
        if read is None:
            return None
        (ids, attention, positions), cache = read
    results = [Sampled([], []) for _ in requests]
    # The request of each row of the batch. Finished ones stay until half of them have finished.
    rows = list(range(len(requests)))
    open_rows = set(rows)
    while open_rows:
        if stopped():
            return None
        outputs = model(
            input_ids=ids,
            attention_mask=attention,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache = outputs.past_key_values
        logprobs = outputs.logits[:, -1].float().log_softmax(-1)
        numbers = [requests[row].rng.random() if row in open_rows else 0.0 for row in rows]
        chosen = choose(logprobs, sampling, numbers)
        tokens = chosen.tolist()  # all at once: each device read has a fixed cost
        chosen_logprobs = logprobs.gather(1, chosen.unsqueeze(1)).squeeze(1).tolist()
        for index, row in enumerate(rows):
            if row not in open_rows:
                continue
            token = tokens[index]
            results[row].ids.append(token)
            results[row].logprobs.append(round(chosen_logprobs[index], 5))
            if token in end_ids or len(results[row].ids) >= requests[row].limit:
                open_rows.discard(row)
        ids = chosen.unsqueeze(1)
        attention = torch.cat([attention, attention.new_ones(len(rows), 1)], dim=1)
        positions = positions[:, -1:] + 1
        if len(open_rows) <= len(rows) // 2:
            for index, row in enumerate(rows):
                if row not in open_rows and can_remember(cache):
                    tokens_read = len(requests[row].ids) + len(results[row].ids) - 1
                    results[row] = results[row]._replace(memory=remember(cache, index, attention, tokens_read))
            open_indices = [index for index, row in enumerate(rows) if row in open_rows]
            selection = torch.tensor(open_indices, dtype=torch.int64, device=ids.device)
            rows = [row for row in rows if row in open_rows]
            ids, attention, positions = ids[selection], attention[selection], positions[selection]
            cache.batch_select_indices(selection)
    return results


LIKELIEST = 64
"""Tokens sorted at first: a draw is nearly always one of them, and sorting the whole vocabulary takes longer than a small model's forward pass."""


def choose(logprobs: torch.Tensor, sampling: Sampling, uniform: list[float]) -> torch.Tensor:
    """The next token of each row: (B, V) log-probabilities and one number in [0, 1) a row -> (B,) int64.

    Inverse-transform sampling over tokens in order of probability, cut to the smallest set that holds `top_p`.
    """
    if sampling.temperature == 0:
        return logprobs.argmax(-1)
    probabilities = (logprobs.double() / sampling.temperature).softmax(-1)
    numbers = torch.tensor(uniform, dtype=torch.float64, device=logprobs.device)
    chosen, is_drawn = draw_from_top(probabilities, sampling.top_p, numbers, LIKELIEST)
    top_k = LIKELIEST
    while not is_drawn.all():
        top_k *= 8
        rest = (~is_drawn).nonzero().squeeze(1)
        chosen[rest], is_drawn[rest] = draw_from_top(probabilities[rest], sampling.top_p, numbers[rest], top_k)
    return chosen


def draw_from_top(
    probabilities: torch.Tensor, top_p: float, numbers: torch.Tensor, top_k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The token drawn by each of B `numbers`, and whether it's among its row's `top_k` most likely tokens (otherwise it's undetermined): (B,) int64, bool."""
    vocabulary = probabilities.size(1)
    likeliest, tokens = probabilities.topk(min(top_k, vocabulary))
    cumulative = likeliest.cumsum(-1)
    inside = cumulative - likeliest < top_p
    has_set = (cumulative[:, -1] >= top_p) | (top_k >= vocabulary)
    mass = torch.where(has_set, (likeliest * inside).sum(-1), 1.0)
    index = torch.searchsorted(cumulative, (numbers * mass).unsqueeze(1), right=True)
    is_drawn = has_set | (index.squeeze(1) < tokens.size(1)) & (top_p == 1)
    return tokens.gather(1, index.clamp(max=tokens.size(1) - 1)).squeeze(1), is_drawn
