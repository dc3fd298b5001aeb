"""The canary: verifies that a server answers with the weights of this run.

At its end, a run scores a few token sequences with its policy and with the model that it started from, and writes both to
`canary.json`. A server of the policy is later asked for the log-probabilities of the same tokens. They never match the trainer's
exactly (other kernels, other precision), so the unit is the run's own effect: the distance between policy and base.
A server passes if its distance to the policy is less than half of that; the base itself is at distance one.

A short run may change the model less than switching engines does. An adapter is then judged by its change to the server's own base, which has the
same noise; if that's inconclusive too, the verdict says so and what to do, rather than that other weights answered.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from contract.atomic_files import write_atomically
from trainer.failures import DataFailure

FILE = "canary.json"
CLOSE = 0.5
"""Largest distance to the trainer's numbers, as a share of the distance between policy and base."""
ROUNDED = 0.25
"""Nats per token by which a 4-bit base may differ from the same base served unquantized; other models differ more."""
ENGINE = 0.1
"""The same for an unquantized base: the effect of other kernels and precisions."""
MIN_DISTANCE = 1e-3
"""Nats per token. A run that moved its model by less can't be distinguished from its base."""

FROM_CACHE = 0.02
"""Nats per token by which an answer from a server's prefix cache may differ from a fresh one, since bfloat16 rounding depends on the batch. Another
policy's cache entries cause 0.05 for two similar policies, and 0.35 for two that are 0.44 apart."""

WHAT_TO_DO = (
    "Publish it as a folder, where every byte is compared; or train further, with more steps or a higher learning rate; or serve it in the "
    "precision in which it was trained."
)

Logprobs = Sequence[Sequence[float]]
"""For each probe, the log-probability (nats) of each token but the first."""
Finding = Literal["passed", "base_answers", "other_policy", "other_base", "others_cache", "unprovable"]


@dataclass(frozen=True)
class Canary:
    """A policy's and its base model's log-probabilities of the same tokens."""

    probes: list[list[int]]
    policy: Logprobs
    base: Logprobs
    merged: Logprobs | None = None
    """If the base was in 4 bits during training: log-probabilities of the policy on the unquantized base. An adapter is
    then judged by its change, since a server's base is unquantized."""

    @property
    def apart(self) -> float:
        """How far the run moved its model, in nats per token."""
        return difference(self.policy, self.base)


@dataclass(frozen=True)
class Cached:
    """How much a policy's answers depend on its server's prefix cache, in nats per token (mean absolute differences)."""

    to_fresh: float
    """Between an answer to a prompt cached by other policies and one that bypassed the cache."""
    noise: float = 0.0
    """Between two answers that bypassed the cache."""

    @property
    def is_mixed_up(self) -> bool:
        """Whether the answer used another policy's cache entries."""
        return not self.to_fresh <= max(FROM_CACHE, 3 * self.noise)


@dataclass(frozen=True)
class Verdict:
    """The canary's result, with distances in nats per token (mean absolute differences)."""

    finding: Finding
    message: str
    to_policy: float
    """From the server's answers to the trainer's policy."""
    to_base: float
    """From the server's answers to the base: the server's own if it was asked, otherwise the trainer's."""
    apart: float
    """From the trainer's policy to its base."""
    to_fresh: float | None = None
    """Between answers with and without a prefix cache filled by other policies; None without a cache."""

    @property
    def passed(self) -> bool:
        return self.finding == "passed"

    def to_json(self) -> dict[str, Any]:
        return {key: round(value, 6) if isinstance(value, float) else value for key, value in asdict(self).items()}


def judge(
    canary: Canary, served: Logprobs, *, served_base: Logprobs | None = None, cached: Cached | None = None
) -> Verdict:
    """Whether `served`, what a server answered for the canary's probes, comes from the canary's policy.

    served_base: the answers of the same server's base model, if an adapter is judged. cached: the effect of its prefix cache, if it
    had one when the policy was loaded. Raises ValueError if the lengths differ, which means that the server read
    other tokens.
    """
    apart = canary.apart
    limit = CLOSE * apart
    noise = difference(served_base, canary.base) if served_base is not None else 0.0
    drowned = limit <= noise < ENGINE and canary.merged is None
    if served_base is not None and (canary.merged is not None or drowned):
        expected = moved(served_base, canary)
    else:
        expected = canary.policy if canary.merged is None else canary.merged
    to_policy = difference(served, expected)
    to_base = difference(served, served_base if served_base is not None else canary.base)

    def verdict(finding: Finding, message: str) -> Verdict:
        return Verdict(finding, message, to_policy, to_base, apart, cached.to_fresh if cached else None)

    if apart < MIN_DISTANCE:
        return verdict(
            "unprovable",
            f"Training moved the model by {apart:.2g} nats a token, too little to tell it from its base. {WHAT_TO_DO}",
        )
    if not noise < max(limit, ENGINE if canary.merged is None else ROUNDED):
        return verdict(
            "other_base",
            f"The server's base model is not the one that this policy was trained from: they differ by {noise:.3g} nats a "
            f"token, and the whole run made a difference of {apart:.3g}.",
        )
    if to_policy < limit and to_policy < to_base:
        if cached is not None and cached.is_mixed_up:
            return verdict(
                "others_cache",
                f"For a prompt that another policy has answered, the server reuses that policy's prefix cache entries: the answer is "
                f"{cached.to_fresh:.3g} nats a token from this policy's own. Start the server without prefix caching, or one that keeps adapters "
                "apart (vLLM 0.32 does).",
            )
        return verdict("passed", f"It answers as the trained policy does, within {to_policy:.2g} nats a token.")
    if to_base < (CLOSE * limit if drowned else limit):
        return verdict("base_answers", "The base model answers under this name: the policy's weights are not in use.")
    if to_policy < apart + 2 * noise if drowned else served_base is None and max(to_policy, apart) < ENGINE:
        return verdict(
            "unprovable",
            f"Nothing can be proven: the answers are {to_policy:.3g} nats a token from the policy and {to_base:.3g} from the base. The run "
            f"made a difference of {apart:.3g}, and another engine or precision makes one as large. {WHAT_TO_DO}",
        )
    return verdict(
        "other_policy",
        f"Neither the policy nor its base answers: {to_policy:.3g} nats a token from the policy, {to_base:.3g} from the base.",
    )


def moved(served_base: Logprobs, canary: Canary) -> Logprobs:
    """What the server's base would answer if it changed as the trainer's did. Raises ValueError on unequal lengths."""
    difference(served_base, canary.base)  # checks the lengths
    rows = zip(served_base, canary.policy, canary.base, strict=True)
    return [[a + b - c for a, b, c in zip(*row, strict=True)] for row in rows]


def difference(left: Logprobs, right: Logprobs) -> float:
    """Mean absolute difference over all tokens, nats; infinite if any value isn't finite. Raises ValueError on unequal lengths."""
    if [len(row) for row in left] != [len(row) for row in right]:
        raise ValueError("the log-probabilities are of different tokens: their numbers differ")
    gaps = [abs(a - b) for one, other in zip(left, right, strict=True) for a, b in zip(one, other, strict=True)]
    mean = sum(gaps) / max(1, len(gaps))
    return mean if math.isfinite(mean) else math.inf


def write_canary(canary: Canary, folder: Path) -> None:
    """Write canary.json atomically."""
    write_atomically(folder / FILE, json.dumps(asdict(canary)))


def read_canary(folder: Path, *, sha256: str) -> Canary:
    """The canary of the run in `folder`. Raises DataFailure if it isn't the one named in the run's report."""
    try:
        body = (folder / FILE).read_bytes()
    except OSError:
        raise DataFailure(
            f"There is no {FILE} in {folder}.",
            advice="Train the policy again: without this file, a server of it can't be verified.",
        ) from None
    if hashlib.sha256(body).hexdigest() != sha256:
        raise DataFailure(f"{FILE} in {folder} is not what the run wrote.", advice="Restore it from a backup.")
    try:
        canary = Canary(**json.loads(body))
        for other in (canary.base, canary.merged):
            difference(canary.policy, canary.policy if other is None else other)
        is_sound = all(type(token) is int for probe in canary.probes for token in probe)
    except (TypeError, ValueError, RecursionError):  # an archive that was imported may hold anything
        is_sound = False
    if not is_sound:
        raise DataFailure(f"{FILE} in {folder} can't be read.", advice="Train the policy again.")
    return canary


def canary_entry(folder: Path) -> dict[str, Any]:
    """A report's entry for the canary file next to it; empty if there is none."""
    if not (folder / FILE).is_file():
        return {}
    body = (folder / FILE).read_bytes()
    canary = Canary(**json.loads(body))
    return {
        "canary": {
            "sha256": hashlib.sha256(body).hexdigest(),
            "probes": len(canary.probes),
            "tokens": sum(map(len, canary.policy)),
            "apart": round(canary.apart, 6),
        }
    }
