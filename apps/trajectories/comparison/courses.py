"""The course of a run: everything that somebody who replays it gets to read, reduced to a digest.

Runs of one course cannot be told apart. Ids of calls, timings, tokens and rewards are no part of it; what the policy did counts as
in `actions.py`, what it said and thought word by word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from apps.trajectories.comparison.actions import words_of
from contract.trajectory import Trajectory as TrajectoryRecord

DIGEST_BYTES = 8
"""Of the runs of one task even a million hardly meet by chance, and Postgres sorts whole numbers fast."""


def course_of(record: TrajectoryRecord, acted: Sequence[bytes]) -> int:
    """The digest of a run, a signed number of 64 bits; `acted` has what each step did, as `actions.digest_of` tells it."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for part in _parts(record, acted):
        digest.update(len(part).to_bytes(8))  # so that no two lists of parts read alike
        digest.update(part)
    return int.from_bytes(digest.digest(), signed=True)


def _parts(record: TrajectoryRecord, acted: Sequence[bytes]) -> Iterator[bytes]:
    for step, act in zip(record.steps, acted, strict=True):
        yield from _heard(step.context)
        yield act
        yield from _said(step.message)
    yield from _heard(record.closing)


def _heard(messages: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    for message in messages:
        yield _bytes(str(message.get("role", "")))
        yield _bytes(words_of(message))


def _said(message: Mapping[str, Any]) -> Iterator[bytes]:
    yield _bytes(words_of(message))
    yield _bytes(str(message.get("reasoning_content") or ""))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
