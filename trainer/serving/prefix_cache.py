"""Tests whether a server's prefix cache mixes up policies.

A server caches the keys and values of prompts for reuse with prompts that share a prefix. A server that mixes up adapters
uses the wrong ones. The canary doesn't detect that: prompt log-probabilities (`echo`) are always recomputed. So the other policies are first
queried with a few prompts, and then this one, once normally, and once with a salt, which bypasses the cache.
"""

import secrets
from collections.abc import Sequence

from trainer.canary import Cached
from trainer.serving.client import VllmServer

LENGTH = 520
"""Tokens of the longest prompt: four of vLLM's largest blocks (128, on a CPU), since only whole blocks are cached, plus a remainder."""
PROMPTS = 4
SHORTER = 3
"""Tokens by which each prompt is shorter than the one before."""
TRIES = 3
"""A busy server occasionally rounds differently; one that mixes up policies always does so."""

Prompts = Sequence[Sequence[int]]
Answers = list[dict[str, float]]
"""For each prompt, the most likely next tokens with log-probabilities (nats)."""


def prompts_of(probes: Prompts, *, longest: int = 0) -> list[list[int]]:
    """Prompts with shared prefixes, made from a canary's probes. longest: the server's maximum tokens; 0 if unknown."""
    flat = [token for probe in probes for token in probe]
    length = min(LENGTH, longest - 1) if longest else LENGTH
    text = (flat * (length // len(flat) + 1))[:length]
    return [text[: length - SHORTER * index] for index in range(PROMPTS)]


def fill(server: VllmServer, model: str, prompts: Prompts) -> Answers:
    """Query normally, which caches the prompts for `model`."""
    return [server.next_tokens(model, prompt) for prompt in prompts]


def from_cache(server: VllmServer, model: str, prompts: Prompts) -> Cached:
    """Measure the cache's effect on `model`'s answers. Call it before any other query of `model`, whose own cache entries are correct."""
    cached = Cached(to_fresh=0.0)
    for _ in range(TRIES):
        answers = fill(server, model, prompts)
        uncached, repeated = _uncached(server, model, prompts), _uncached(server, model, prompts)
        cached = Cached(to_fresh=_difference(answers, uncached), noise=_difference(repeated, uncached))
        if not cached.is_mixed_up:
            break
    return cached


def _uncached(server: VllmServer, model: str, prompts: Prompts) -> Answers:
    """Query without the cache. All queries share one salt, so that their shared prefixes are computed in the same blocks as the cached ones."""
    salt = secrets.token_urlsafe(16)
    return [server.next_tokens(model, prompt, salt=salt) for prompt in prompts]


def _difference(answers: Answers, uncached: Answers) -> float:
    """Mean absolute difference over the fresh answer's tokens. A token not among the most likely counts as the least likely of them."""
    gaps = [
        abs(logprob - answer.get(token, min(answer.values())))
        for answer, reference in zip(answers, uncached, strict=True)
        for token, logprob in reference.items()
    ]
    return sum(gaps) / len(gaps)
