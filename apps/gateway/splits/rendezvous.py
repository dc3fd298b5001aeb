"""Which arm a unit is led to: weighted rendezvous hashing (Thaler and Ravishankar, 1998; weights after Schindelhauer and Schomaker, 2005). Pure.

Each arm bids `share / −ln(hash)` for the unit, and the highest bid has it. An arm's bid depends on nothing but its own share, so a unit only moves
to an arm whose share rose against that of the arm it had: as few move as there must, and nothing needs to be stored of any unit.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from math import log
from typing import TypeVar
from uuid import UUID

K = TypeVar("K")
BITS = 53
"""Of a hash, as many as a float holds."""


def draw(split: UUID, shares: Mapping[UUID, float], unit: str) -> UUID:
    """The arm that has `unit`, told by its policy. `shares` are positive, of any sum; there is one at least."""
    return max(shares, key=lambda policy: (shares[policy] / -log(_fraction(split, policy, unit)), policy))


def _fraction(split: UUID, policy: UUID, unit: str) -> float:
    """Between 0 and 1, neither included, as if drawn by chance."""
    digest = blake2b(unit.encode("utf-8", "surrogatepass"), digest_size=8, key=split.bytes + policy.bytes).digest()
    fraction: float = ((int.from_bytes(digest, "big") >> (64 - BITS)) + 0.5) / 2**BITS
    return fraction


def shares_of(weights: Mapping[K, int], canary: float) -> dict[K, float]:
    """What each arm has of the sessions that the canary, with its share of all, leaves."""
    total = sum(weights.values())
    return {arm: weight / total * (1 - canary) for arm, weight in weights.items()}
