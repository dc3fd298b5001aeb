"""Two trajectories of one task as a preference: the shared prompt, and what differs after it. Pure.

- **prompt** is what both trajectories share: every leading step that's equal in both, and the messages before the first step that isn't.
  Equal means byte for byte except tool-call ids, which servers generate at random: the prompt has those of the chosen trajectory.
  If the openings differ, it's their common prefix of messages.
- **chosen** and **rejected** hold the rest: assistant turns with the tool and user messages between them. Messages after the
  last assistant turn are left out, since no action follows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from apps.datasets.rows.chat_encoding import Turn, alike

ASSISTANT = b'{"role":"assistant"'
"""Prefix of an encoded assistant message."""
CONTEXT = b'{"role":"assistant","weight":0'
"""Prefix of one that the policy didn't write, as encoded by `encode_context`."""


class Sides(NamedTuple):
    """A row's three message lists, each message encoded."""

    prompt: list[bytes]
    chosen: list[bytes]
    rejected: list[bytes]
    shared_turns: int = 0
    """Turns in the prompt: the step at which the trajectories diverge."""


class Unusable(Exception):
    """The trajectories make no row."""


class SameTrajectories(Unusable):
    """Both trajectories consist of the same messages."""


class NoTurn(Unusable):
    """The trajectories diverge at something other than the agent's turn, or one is a prefix of the other."""


class NothingBefore(Unusable):
    """The trajectory begins with an action, so there's no prompt."""


class NoSharedStart(Unusable):
    """The trajectories share no first message, so there's no prompt."""


def sides(chosen: Sequence[Turn], rejected: Sequence[Turn]) -> Sides:
    """Split two trajectories, each of at least one turn, into the shared prompt and what differs. Raises Unusable."""
    shortest = min(len(chosen), len(rejected))
    same = 0
    while same < shortest and _same(chosen[same], rejected[same]):
        same += 1
    if same == len(chosen) == len(rejected):
        raise SameTrajectories
    # Each side keeps at least one turn of its own, even if one trajectory is a prefix of the other.
    shared = min(same, shortest - 1)
    opening = chosen[shared].context
    common = _common(opening, rejected[shared].context)
    if common == len(opening) == len(rejected[shared].context):
        prompt = [message for turn in chosen[:shared] for message in (*turn.context, turn.message)] + opening
        if not prompt:
            raise NoSharedStart
        return Sides(prompt, _after(chosen[shared:], common), _after(rejected[shared:], common), shared)
    if shared:
        # The same action got different responses. A prompt ends before an assistant turn, so that turn begins both sides.
        shared -= 1
        opening = chosen[shared].context
        prompt = [message for turn in chosen[:shared] for message in (*turn.context, turn.message)] + opening
        if not prompt:
            raise NoSharedStart
        return Sides(prompt, _after(chosen[shared:], len(opening)), _after(rejected[shared:], len(opening)), shared)
    if not common:
        raise NoSharedStart
    return Sides(opening[:common], _after(chosen, common), _after(rejected, common))


def first_actions(chosen: Sequence[Turn], rejected: Sequence[Turn]) -> Sides:
    """Only the two actions at which the trajectories diverge. Raises Unusable."""
    full = sides(chosen, rejected)
    better, worse = full.chosen[0], full.rejected[0]
    if alike(better, worse) or not (_is_turn(better) and _is_turn(worse)):
        raise NoTurn
    return Sides(full.prompt, [better], [worse], full.shared_turns)


def _is_turn(message: bytes) -> bool:
    return message.startswith(ASSISTANT) and not message.startswith(CONTEXT)


def _common(left: Sequence[bytes], right: Sequence[bytes]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if not alike(one, other):
            break
        count += 1
    return count


def _same(one: Turn, other: Turn) -> bool:
    if one == other:
        return True
    return (
        len(one.context) == len(other.context)
        and alike(one.message, other.message)
        and all(map(alike, one.context, other.context))
    )


def _after(turns: Sequence[Turn], skipped: int) -> list[bytes]:
    """The messages of `turns` without the first `skipped` ones, which are in the prompt."""
    return [message for turn in turns for message in (*turn.context, turn.message)][skipped:]
