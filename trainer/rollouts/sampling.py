"""Samples the next turn of many chats at once from a local model.

A loop of its own rather than `generate`: each chat draws from its own random numbers, so that an episode does not depend on which others
happen to share its batch; log-probabilities are kept without keeping all logits; and a stop is seen at every token.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from trainer.configs import Sampling


class Request(NamedTuple):
    """One chat to go on with."""

    ids: list[int]
    """The prompt."""
    limit: int
    """Most tokens to generate."""
    rng: random.Random


class Sampled(NamedTuple):
    """What the policy wrote."""

    ids: list[int]
    """Ends with the end-of-turn token, unless the limit came first."""
    logprobs: list[float]
    """Nats, under the model's own distribution (temperature 1, no top-p)."""


@torch.inference_mode()
def sample(
    model: Any,
    requests: Sequence[Request],
    sampling: Sampling,
    *,
    end_ids: set[int],
    pad_id: int,
    stopped: Callable[[], bool],
) -> list[Sampled] | None:
    """One turn for each request, in order; None where `stopped()` became true on the way."""
    width = max(len(request.ids) for request in requests)
    ids = torch.tensor([[pad_id] * (width - len(request.ids)) + request.ids for request in requests])
    attention = torch.tensor([[0] * (width - len(r.ids)) + [1] * len(r.ids) for r in requests])
    ids, attention = ids.to(model.device), attention.to(model.device)
    positions = (attention.cumsum(1) - 1).clamp(min=0)
    results = [Sampled([], []) for _ in requests]
    # The request of each row of the batch. One that has ended stays until half of them have.
    rows = list(range(len(requests)))
    open_rows = set(rows)
    cache = None
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
        tokens = chosen.tolist()  # at once: each read of a tensor costs as much as all of them
        kept = logprobs.gather(1, chosen.unsqueeze(1)).squeeze(1).tolist()
        for place, row in enumerate(rows):
            if row not in open_rows:
                continue
            token = tokens[place]
            results[row].ids.append(token)
            results[row].logprobs.append(round(kept[place], 5))
            if token in end_ids or len(results[row].ids) >= requests[row].limit:
                open_rows.discard(row)
        ids = chosen.unsqueeze(1)
        attention = torch.cat([attention, attention.new_ones(len(rows), 1)], dim=1)
        positions = positions[:, -1:] + 1
        if 0 < len(open_rows) <= len(rows) // 2:
            places = torch.tensor([place for place, row in enumerate(rows) if row in open_rows], device=ids.device)
            rows = [rows[place] for place in places.tolist()]
            ids, attention, positions = ids[places], attention[places], positions[places]
            cache.batch_select_indices(places)
    return results


def choose(logprobs: torch.Tensor, sampling: Sampling, uniform: list[float]) -> torch.Tensor:
    """The next token of each row: (B, V) log-probabilities and one number in [0, 1) a row -> (B,) int64.

    Inverse-transform sampling over tokens in order of probability, cut to the smallest set that holds `top_p`.
    """
    if sampling.temperature == 0:
        return logprobs.argmax(-1)
    probabilities, tokens = (logprobs.double() / sampling.temperature).softmax(-1).sort(-1, descending=True)
    cumulative = probabilities.cumsum(-1)
    inside = cumulative - probabilities < sampling.top_p
    mass = (probabilities * inside).sum(-1)
    target = torch.tensor(uniform, dtype=torch.float64, device=logprobs.device) * mass
    index = torch.searchsorted(cumulative, target.unsqueeze(1), right=True).clamp(max=tokens.size(1) - 1)
    return tokens.gather(1, index).squeeze(1)
