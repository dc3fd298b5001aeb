"""Token ids and log-probabilities in engines' replies: requested, removed before the agent sees them, and checked against the engine's counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apps.gateway.call_graph import Ids
from apps.gateway.kept_values import MAX_VALUES, NoEvent

NO_IDS = "The server doesn't return token ids."
SEVERAL = "The agent asked for several replies at once."
MAX_LOGPROB = 1e-3
"""Maximum log-probability, allowing for rounding errors above 0."""
LARGEST = float(np.finfo(np.float32).max)
"""The largest number of the dtype that log-probabilities are stored as."""


@dataclass
class Tokens:
    """Token-level data of one reply."""

    prompt: list[int] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    problem: str = ""
    """Why it can't be used."""

    def check(self, read: int | None, written: int | None) -> None:
        """Sets `problem` if something is missing, or differs from the engine's counts."""
        counts = (read, written)
        if self.problem:
            return
        if not self.prompt or not self.sampled:
            self.problem = NO_IDS
        elif counts != (len(self.prompt), len(self.sampled)):
            counted = " and ".join("no number of" if count is None else f"{count:,}" for count in counts)
            self.problem = (
                f"The server counted {counted} tokens, and sent {len(self.prompt):,} and {len(self.sampled):,} ids."
            )
        elif len(self.logprobs) != len(self.sampled):
            self.problem = f"{len(self.sampled)} tokens came with {len(self.logprobs)} log-probabilities."
        else:
            logprobs = np.array(self.logprobs)
            if not (np.abs(logprobs) <= LARGEST).all():
                self.problem = "A log-probability isn't finite."
            elif logprobs.max() > MAX_LOGPROB:
                self.problem = "A log-probability is above 0."

    @property
    def prompt_ids(self) -> Ids | None:
        return None if self.problem else np.array(self.prompt, np.int32)

    @property
    def sampled_ids(self) -> Ids | None:
        return None if self.problem else np.array(self.sampled, np.int32)


class Capture:
    """Adds fields to the requests of one call, and removes the additional ones from their replies."""

    def __init__(self, body: dict[str, Any], *, supports_token_ids: bool) -> None:
        self.tokens = Tokens(problem="" if supports_token_ids else NO_IDS)
        if supports_token_ids and body.get("n") not in (None, 1):
            self.tokens.problem = SEVERAL
        self._supports_token_ids = supports_token_ids
        self._wants_logprobs = bool(body.get("logprobs"))
        self._wants_ids = bool(body.get("return_token_ids"))
        options = body.get("stream_options")
        self.wants_usage = isinstance(options, dict) and bool(options.get("include_usage"))

    def request(self, body: dict[str, Any]) -> dict[str, Any]:
        """The request with the fields that the capture needs."""
        if not self._supports_token_ids:
            return body
        added: dict[str, Any] = {"return_token_ids": True, "logprobs": True}
        if body.get("stream"):
            options = body.get("stream_options")
            added["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
        return {**body, **added}

    def extract(self, reply: dict[str, Any]) -> None:
        """Take the tokens out of a reply, or a chunk of a streamed one. Raises NoEvent if a stream has too many."""
        if not self._supports_token_ids:
            return
        choices = reply.get("choices")
        first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        try:
            self.tokens.prompt += _ids(reply.get("prompt_token_ids") or first.get("prompt_token_ids"))
            self.tokens.sampled += _ids(first.get("token_ids"))
            logprobs = first.get("logprobs")
            content = logprobs.get("content") if isinstance(logprobs, dict) else None
            self.tokens.logprobs += [float(token["logprob"]) for token in content or []]
        except (TypeError, ValueError, KeyError, OverflowError):
            self.tokens.problem = (
                self.tokens.problem or "The server's token ids or log-probabilities are in an unknown form."
            )
        if len(self.tokens.prompt) + len(self.tokens.sampled) + len(self.tokens.logprobs) > MAX_VALUES:
            raise NoEvent
        if not self._wants_ids:
            for holder in (reply, first):
                holder.pop("prompt_token_ids", None)
                holder.pop("token_ids", None)
        if not self._wants_logprobs and first.get("logprobs") is not None:
            first["logprobs"] = None


def _ids(value: Any) -> list[int]:
    if value is None:
        return []
    if not is_ids(value):
        raise ValueError
    ids: list[int] = value
    return ids


def is_ids(value: Any) -> bool:
    """Whether it's a list of token ids."""
    return isinstance(value, list) and all(map(_is_id, value))


def _is_id(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31
