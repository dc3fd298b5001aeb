"""Assigns units to arms: weighted rendezvous hashing (Thaler and Ravishankar, 1998; weights after Schindelhauer and Schomaker, 2005). Pure.

Each arm bids `share / −ln(hash)` for the unit, and the highest bid wins. An arm's bid depends only on its own share, so a unit only moves
to an arm whose share rose relative to its previous arm's: the minimum number move, and no assignment needs to be stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from math import log
from typing import TypeVar
from uuid import UUID

K = TypeVar("K")
BITS = 53
"""Bits of a hash that a float can hold."""


def draw(split: UUID, shares: Mapping[UUID, float], unit: str) -> UUID:
    """The policy of the arm for `unit`. `shares` are positive, with any sum, and not empty."""
    return max(shares, key=lambda policy: (shares[policy] / -log(_fraction(split, policy, unit)), policy))


def _fraction(split: UUID, policy: UUID, unit: str) -> float:
    """A pseudorandom fraction in the open interval (0, 1)."""
    digest = blake2b(unit.encode("utf-8", "surrogatepass"), digest_size=8, key=split.bytes + policy.bytes).digest()
    fraction: float = ((int.from_bytes(digest, "big") >> (64 - BITS)) + 0.5) / 2**BITS
    return fraction


def shares_of(weights: Mapping[K, int], canary: float) -> dict[K, float]:
    """Each arm's share of the sessions that the canary leaves."""
    total = sum(weights.values())
    return {arm: weight / total * (1 - canary) for arm, weight in weights.items()}
