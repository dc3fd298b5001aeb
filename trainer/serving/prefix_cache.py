"""Does a policy answer from what another one left in its server's prefix cache?

A server keeps what a model made of a prompt (its keys and values), and begins there when the next prompt begins alike. One that mixes up two adapters
begins with the wrong ones. The canary doesn't see that: the log-probabilities of a prompt (`echo`) are always computed anew. So the others are asked
first what comes next after a few prompts, and then this one, once as everybody asks, and once with a salt, which keeps the cache out.
"""

import secrets
from collections.abc import Sequence

from trainer.canary import Cached
from trainer.serving.client import VllmServer

LENGTH = 520
"""Tokens of the longest prompt: four of vLLM's largest blocks (128, on a CPU), for only whole blocks are cached, and a rest."""
PROMPTS = 4
SHORTER = 3
"""Tokens by which each prompt is shorter than the one before."""
TRIES = 3
"""A busy server rounds otherwise now and then. One that mixes up policies does so each time."""

Prompts = Sequence[Sequence[int]]
Answers = list[dict[str, float]]
"""For each prompt the likeliest next tokens and their log-probabilities (nats)."""


def prompts_of(probes: Prompts, *, longest: int = 0) -> list[list[int]]:
    """Prompts that begin alike, made of a canary's probes. longest: tokens that the server takes; 0 where it doesn't say."""
    flat = [token for probe in probes for token in probe]
    length = min(LENGTH, longest - 1) if longest else LENGTH
    text = (flat * (length // len(flat) + 1))[:length]
    return [text[: length - SHORTER * index] for index in range(PROMPTS)]


def fill(server: VllmServer, model: str, prompts: Prompts) -> Answers:
    """Ask as everybody asks, and so leave the prompts in the server's cache as `model` reads them."""
    return [server.next_tokens(model, prompt) for prompt in prompts]


def from_cache(server: VllmServer, model: str, prompts: Prompts) -> Cached:
    """What the cache makes of `model`'s answers. Call it before anything else is asked of `model`: what it caches itself is right."""
    cached = Cached(to_fresh=0.0)
    for _ in range(TRIES):
        answers = fill(server, model, prompts)
        fresh, again = _fresh(server, model, prompts), _fresh(server, model, prompts)
        cached = Cached(to_fresh=_apart(answers, fresh), noise=_apart(again, fresh))
        if not cached.is_mixed_up:
            break
    return cached


def _fresh(server: VllmServer, model: str, prompts: Prompts) -> Answers:
    """With one salt for all: they begin alike, and so are computed in the same pieces as those from the cache."""
    salt = secrets.token_urlsafe(16)
    return [server.next_tokens(model, prompt, salt=salt) for prompt in prompts]


def _apart(answers: Answers, fresh: Answers) -> float:
    """Mean absolute difference over the fresh answer's tokens. One that is not among the likeliest is as unlikely as the last of them, or more."""
    gaps = [
        abs(logprob - answer.get(token, min(answer.values())))
        for answer, reference in zip(answers, fresh, strict=True)
        for token, logprob in reference.items()
    ]
    return sum(gaps) / len(gaps)
