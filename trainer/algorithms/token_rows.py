"""Rollouts as token rows: one for each episode, with all its chats.

TRL takes exactly one row per episode. An episode whose agent has sub-agents, or rewrites its own history, has several chats that don't
extend each other; their tokens are concatenated in the row, and `packing` runs the model on each chat separately. So the chats of an
episode share its advantage, and a loss that averages over rollouts counts an episode once, however many chats it has.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence, Set
from itertools import accumulate
from typing import NamedTuple

from contract.episodes import CallTokens, Chat, PlayedEpisode

CONTEXT = -1
"""The turn index of tokens that no turn wrote: tool results, and template tokens."""
MAX_LENGTHS = 4
"""A row's maximum length, as a multiple of the batch's longest single chat: memory grows with it."""


class TokenRow(NamedTuple):
    """An episode as tokens."""

    prompt: list[int]
    completion: list[int]
    """All turns with the tokens between them; ends with the last token of the last turn."""
    turns: list[int]
    """For each token of `completion`, the index of the turn that wrote it, or CONTEXT. A turn outside the longest chat has the index of the
    longest chat's next turn at that time."""
    chats: list[int]
    """For each token of `completion`, the index of its chat; negated for tokens before the chat's first turn, except in the first chat (index 0)."""

    @property
    def own(self) -> list[int]:
        """The loss mask: 1 where the policy wrote the token, otherwise 0."""
        return [int(turn != CONTEXT) for turn in self.turns]

    @property
    def chat_count(self) -> int:
        return max(self.chats, default=0) + 1


class _Piece(NamedTuple):
    """A chat, or the part of one between two breaks."""

    head: list[int]
    """The tokens before the first turn to learn from."""
    tail: list[int]
    turns: list[int]
    """For each token of `tail`, as in `TokenRow.turns`."""

    def __len__(self) -> int:
        return len(self.head) + len(self.tail)


def token_rows(episodes: Sequence[PlayedEpisode], *, empty: int, ends: Set[int] = frozenset()) -> list[TokenRow]:
    """A row for each episode. One without turns becomes the single token `empty`, outside the loss mask.

    ends: if given, a turn that ends with none of these was cut off and counts as context, without loss.

    Each call is learned from once, even if several chats begin with it. A call whose tokens are unknown or don't extend those of the previous
    call begins a new piece. Pieces are added until the row would exceed MAX_LENGTHS times the longest single piece of the batch.
    """
    pieces = [list(_pieces(episode, ends)) for episode in episodes]
    longest = max((len(piece) for of_one in pieces for piece in of_one), default=0)
    return [_row(_up_to(of_one, MAX_LENGTHS * longest), empty) for of_one in pieces]


def _up_to(pieces: Sequence[_Piece], max_tokens: int) -> list[_Piece]:
    sums = accumulate(map(len, pieces))
    return [piece for piece, length in zip(pieces, sums, strict=True) if length <= max_tokens]


def _row(pieces: Sequence[_Piece], empty: int) -> TokenRow:
    if not pieces:
        return TokenRow([empty], [empty], [CONTEXT], [0])
    first, *rest = pieces
    completion, turns, chats = list(first.tail), list(first.turns), [0] * len(first.tail)
    for number, piece in enumerate(rest, start=1):
        completion += piece.head + piece.tail
        turns += [CONTEXT] * len(piece.head) + piece.turns
        chats += [-number] * len(piece.head) + [number] * len(piece.tail)
    return TokenRow(first.head, completion, turns, chats)


def _pieces(episode: PlayedEpisode, ends: Set[int]) -> Iterator[_Piece]:
    """The pieces of the longest chat, last one first, then those of the other chats."""
    steps = episode.rollout.steps
    ids = episode.rollout.info.get("calls") or [f"{number:09}" for number in range(len(steps))]
    longest = [CallTokens.of_step(call, step.info) for call, step in zip(ids, steps, strict=True)]
    parts = [_piece(part, ids, ends, but=frozenset()) for part in _unbroken(longest)]
    yield from reversed(parts)
    learned = set(ids)
    for chat in episode.others:
        for part in _unbroken(chat):
            if any(call.call not in learned for call in part):
                yield _piece(part, ids, ends, but=learned)
        learned.update(call.call for call in chat)


def _unbroken(chat: Chat) -> Iterator[list[CallTokens]]:
    """The parts of a chat whose calls extend each other's tokens. After a call whose tokens are unknown, the next part begins at a break."""
    part: list[CallTokens] = []
    is_known = True
    for call in chat:
        if part and (call.is_break or not call.sampled):
            yield part
            part = []
        is_known = bool(call.sampled) and (is_known or call.is_break)
        if is_known:
            part.append(call)
    if part:
        yield part


def _piece(calls: Chat, longest: Sequence[str], ends: Set[int], *, but: Set[str]) -> _Piece:
    """The tokens of consecutive calls.

    longest: the ids of the longest chat's calls, which define the turn indices. but: ids of calls that carry no loss.
    """
    head: list[int] = []
    tail: list[int] = []
    wrote: list[int] = []
    for call in calls:
        is_read_only = call.call in but
        if is_read_only and not tail:
            head += call.context + call.sampled
            continue
        context = call.context if tail else []
        head += [] if tail else call.context
        is_cut_off = bool(ends) and call.sampled[-1] not in ends
        turn = min(bisect_left(longest, call.call), len(longest) - 1)
        tail += context + call.sampled
        wrote += [CONTEXT] * len(context) + [CONTEXT if is_read_only or is_cut_off else turn] * len(call.sampled)
    return _Piece(head, tail, wrote)
