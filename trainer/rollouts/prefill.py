"""Reads long prompts in pieces: the activations of a whole one may take far more memory than the model and its KV cache."""

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

AT_ONCE = 4
"""Activations of the widest layer that exist at once: a gated layer's two inputs, their activation, and their product."""
BYTES = 4
"""Of a number, since parts are computed as float32."""
SCORES = 2
"""Attention scores that exist at once: before and after the softmax."""


class Prompt(NamedTuple):
    """The unread part of a batch's prompts, padded on the left."""

    ids: torch.Tensor
    """(B, n)"""
    attention: torch.Tensor
    """(B, cached + n)"""
    positions: torch.Tensor
    """(B, n)"""


def read_pieces(
    model: Any, prompt: Prompt, cache: Any, *, most_bytes: int, stopped: Callable[[], bool]
) -> tuple[Prompt, Any] | None:
    """Read all but the last piece. Returns what is left, and the cache; None if `stopped()` became true meanwhile."""
    if is_stateful(model):
        return prompt, cache
    ids, attention, positions = prompt
    length = attention.size(1)
    piece = piece_length(model, rows=ids.size(0), length=length, most_bytes=most_bytes)
    while ids.size(1) > piece:
        if stopped():
            return None
        outputs = model(
            input_ids=ids[:, :piece],
            attention_mask=attention[:, : length - ids.size(1) + piece],
            position_ids=positions[:, :piece],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        cache, ids, positions = outputs.past_key_values, ids[:, piece:], positions[:, piece:]
    return Prompt(ids, attention, positions), cache


def is_stateful(model: Any) -> bool:
    """Whether it has a recurrent state, which may not continue with several tokens at once."""
    return bool(getattr(model, "_is_stateful", False))


def piece_length(model: Any, *, rows: int, length: int, most_bytes: int) -> int:
    """How many tokens of each of `rows` prompts fit at once. length: of the prompts so far."""
    a_token = width_bytes(model) + length * score_bytes(model)
    return max(1, most_bytes // (rows * a_token))


def most_tokens(model: Any, most_bytes: int) -> int:
    """How many tokens a batch may have, so that `most_bytes` are enough for a step: of one token each, or of all for models with a state."""
    scores = score_bytes(model)
    if is_stateful(model):
        return min(most_bytes // width_bytes(model), math.isqrt(most_bytes // scores))
    return most_bytes // scores


def width_bytes(model: Any) -> int:
    """Bytes of the activations of one token."""
    embeddings = {id(part.weight) for part in (model.get_input_embeddings(), model.get_output_embeddings()) if part}
    widths = [max(weight.shape) for weight in model.parameters() if weight.dim() > 1 and id(weight) not in embeddings]
    keeps_one = "logits_to_keep" in inspect.signature(model.forward).parameters
    logits = 0 if keeps_one else model.config.get_text_config().vocab_size
    return BYTES * (AT_ONCE * max(widths, default=1) + logits)


def score_bytes(model: Any) -> int:
    """Bytes of a pair of tokens of which one attends to the other: of their scores, unless a fused kernel computes them, and of the mask."""
    config = model.config.get_text_config()
    heads = config.num_attention_heads if config._attn_implementation == "eager" else 0
    return BYTES * SCORES * (heads + 1)
