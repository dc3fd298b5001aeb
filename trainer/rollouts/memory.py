"""What a local model has read of a chat, kept from one of its turns to the next: a turn costs its own tokens, not the whole chat's again."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

NOTHING = torch.empty(0)


class Memory(NamedTuple):
    """Of one chat, for each layer of the model. Good for one turn: `recall` empties it."""

    keys: list[torch.Tensor]
    """(heads, n, width) for the chat's first n tokens."""
    values: list[torch.Tensor]

    @property
    def length(self) -> int:
        """n."""
        return self.keys[0].size(1)

    def forget(self) -> None:
        """Give back what it takes."""
        self.keys.clear()
        self.values.clear()


def can_remember(cache: Any) -> bool:
    """False for models that keep less than every token, by a sliding window or a state: they read the chat again."""
    return isinstance(cache, DynamicCache) and all(type(layer) is DynamicLayer for layer in cache.layers)


def remember(cache: Any, place: int, attention: torch.Tensor, length: int) -> Memory:
    """The first `length` tokens of the chat at `place` in a batch; `attention` (B, T) is 1 where the cache has a token, 0 where padding."""
    columns = attention[place].nonzero().squeeze(1)[:length]
    return Memory(
        [layer.keys[place].index_select(1, columns) for layer in cache.layers],
        [layer.values[place].index_select(1, columns) for layer in cache.layers],
    )


def recall(memories: Sequence[Memory | None]) -> tuple[DynamicCache | None, list[int]]:
    """All chats' memories as one batch's cache, padded on the left, and how many tokens each has. No cache where nobody has read anything.

    The memories are emptied on the way: held beside the cache, they would double what it takes.
    """
    lengths = [memory.length if memory else 0 for memory in memories]
    known = [memory for memory in memories if memory]
    if not known:
        return None, lengths
    cache = DynamicCache()
    for layer in range(len(known[0].keys)):
        keys = [memory.keys[layer] if memory else None for memory in memories]
        values = [memory.values[layer] if memory else None for memory in memories]
        cache.update(side_by_side(keys, max(lengths)), side_by_side(values, max(lengths)), layer)
        for memory in known:
            memory.keys[layer] = memory.values[layer] = NOTHING
    return cache, lengths


def side_by_side(chats: Sequence[torch.Tensor | None], length: int) -> torch.Tensor:
    """(heads, n, width) a chat -> (B, heads, length, width), with zeros on the left."""
    known = next(chat for chat in chats if chat is not None)
    whole = known.new_zeros(len(chats), known.size(0), length, known.size(2))
    for place, chat in enumerate(chats):
        if chat is not None:
            whole[place, :, length - chat.size(1) :] = chat
    return whole
