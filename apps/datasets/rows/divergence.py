"""Two trajectories of one task as a preference: the prompt that both share, and what differs after it. Pure.

- **prompt** is what both trajectories truly share: every leading step that is the same in both, and the messages before the first step that is
  not. The same means down to the byte, but for the ids of calls, which servers draw by chance: the prompt has those of the chosen trajectory.
  Where the trajectories were opened differently, it is the messages that the openings have in common.
- **chosen** and **rejected** hold the rest: assistant turns with the tool and user messages between them. Messages after the
  last assistant turn are left out: nothing follows them that could be better or worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from apps.datasets.rows.chat_encoding import Turn, alike

ASSISTANT = b'{"role":"assistant"'
"""How `encode_message` begins what an assistant said."""


class Sides(NamedTuple):
    """A row's three message lists, each message encoded."""

    prompt: list[bytes]
    chosen: list[bytes]
    rejected: list[bytes]
    shared_turns: int = 0
    """Turns in the prompt: the step at which the trajectories part."""


class Unusable(Exception):
    """The trajectories make no row."""


class SameRuns(Unusable):
    """Both trajectories consist of the same messages."""


class NoTurn(Unusable):
    """Where the trajectories part it is not the agent's turn, or one trajectory is only the beginning of the other."""


class NothingBefore(Unusable):
    """The run begins with an action, so there is no prompt."""


class NoSharedStart(Unusable):
    """There is no message that both trajectories begin with, so there is no prompt."""


def sides(chosen: Sequence[Turn], rejected: Sequence[Turn]) -> Sides:
    """Cut two trajectories, each of one turn or more, into the shared prompt and what differs. Raises Unusable."""
    shortest = min(len(chosen), len(rejected))
    same = 0
    while same < shortest and _same(chosen[same], rejected[same]):
        same += 1
    if same == len(chosen) == len(rejected):
        raise SameRuns
    # Each side keeps at least one turn of its own, even where one trajectory is the beginning of the other.
    shared = min(same, shortest - 1)
    opening = chosen[shared].context
    common = _common(opening, rejected[shared].context)
    if common == len(opening) == len(rejected[shared].context):
        prompt = [message for turn in chosen[:shared] for message in (*turn.context, turn.message)] + opening
        if not prompt:
            raise NoSharedStart
        return Sides(prompt, _after(chosen[shared:], common), _after(rejected[shared:], common), shared)
    if shared:
        # The same action was answered differently: a prompt ends before an assistant turn, so that turn opens both sides.
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
    """Only the two actions at which the trajectories part. Raises Unusable."""
    whole = sides(chosen, rejected)
    better, worse = whole.chosen[0], whole.rejected[0]
    if alike(better, worse) or not (better.startswith(ASSISTANT) and worse.startswith(ASSISTANT)):
        raise NoTurn
    return Sides(whole.prompt, [better], [worse], whole.shared_turns)


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
