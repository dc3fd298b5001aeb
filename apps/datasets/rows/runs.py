"""The messages of rows that are made of one run: judged steps, demonstrations, unpaired runs and corrected steps. Pure.

As in preference rows: messages after the last turn are left out, and so is all after a correction, which is where the row ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from apps.datasets.rows.preference import SameRuns, Turn, Unusable, alike, encode_message
from contract import jsontext

Messages = tuple[list[bytes], ...]


class NothingBefore(Unusable):
    """The run begins with an action, so there is no prompt."""


def whole(turns: Sequence[Turn]) -> Messages:
    """One list: everything up to the last turn."""
    return (_all(turns),)


def answered(turns: Sequence[Turn]) -> Messages:
    """Prompt and completion: what came before the first turn, and the rest. Raises NothingBefore."""
    prompt = turns[0].context
    if not prompt:
        raise NothingBefore
    return prompt, _all(turns)[len(prompt) :]


def corrected(turns: Sequence[Turn], step: int, better: bytes) -> Messages:
    """One list: the run up to a step, and the better action there."""
    return ([*_all(turns[:step]), *turns[step].context, better],)


def compared(turns: Sequence[Turn], step: int, better: bytes) -> Messages:
    """Prompt, chosen, rejected: the run up to a step, the better action, and what the policy did. Raises SameRuns and NothingBefore."""
    if alike(better, turns[step].message):
        raise SameRuns
    prompt = [*_all(turns[:step]), *turns[step].context]
    if not prompt:
        raise NothingBefore
    return prompt, [better], [turns[step].message]


def read_action(message: bytes, *, keep_surrogates: bool = False) -> bytes:
    """A correction in the spelling that rows have."""
    return encode_message({**jsontext.loads(message), "role": "assistant"}, keep_surrogates=keep_surrogates)


def _all(turns: Sequence[Turn]) -> list[bytes]:
    return [message for turn in turns for message in (*turn.context, turn.message)]
