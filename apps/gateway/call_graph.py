"""Which call of a session a new one continues, told by digests: nothing of the calls before is held or read again.

By tokens where the engine says them: a call continues another whose prompt and reply, token by token, are how its prompt begins. Else by
messages: agents send a reply back with other spacing in the arguments, or null for no content, so what is compared is what it says.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from apps.gateway.models import Call, Join
from contract.chat_digests import DIGEST_BYTES

Ids = NDArray[np.int32]
NODE_COLUMNS = (
    *("id", "body_digest", "chat_digest", "sequence_length", "sequence_digest", "tools_digest"),
    *("prompt_tokens", "completion_tokens", "is_redacted"),
)
"""Of a call, in the order of `Node.of_columns`."""


@dataclass(frozen=True, slots=True)
class Node:
    """A call that was answered, as far as later ones ask about it."""

    id: UUID
    body_digest: bytes
    chat_digest: bytes
    sequence_length: int | None
    sequence_digest: bytes | None
    tools_digest: bytes
    tokens: int
    """That it cost, for the session's budget."""
    is_redacted: bool = False
    """Something of its chat isn't stored."""

    @classmethod
    def of(cls, call: Call) -> Node:
        return cls.of_columns(*(getattr(call, name) for name in NODE_COLUMNS))

    @classmethod
    def of_columns(
        cls,
        id: UUID,
        body_digest: bytes,
        chat_digest: bytes,
        sequence_length: int | None,
        sequence_digest: bytes | None,
        tools_digest: bytes,
        prompt_tokens: int | None,
        completion_tokens: int | None,
        is_redacted: bool,
    ) -> Node:
        """Digests may come as the database's memoryviews."""
        return cls(
            id,
            bytes(body_digest),
            bytes(chat_digest),
            sequence_length,
            None if sequence_digest is None else bytes(sequence_digest),
            bytes(tools_digest),
            (prompt_tokens or 0) + (completion_tokens or 0),
            is_redacted,
        )


class Parent(NamedTuple):
    """What a call continues, and how much of it is already known from there."""

    id: UUID | None
    join: Join
    messages: int = 0
    """How many of its messages are those of the chat before, the reply included."""
    tokens: int = 0
    """How many ids of its prompt are those of the call before, the sampled ones included."""
    tools_digest: bytes = b""
    """Of the tools that were offered there."""
    is_redacted: bool = False
    """Something of the chat there isn't stored."""


NO_PARENT = Parent(None, Join.ROOT)


@dataclass
class CallGraph:
    """The answered calls of one session."""

    key: bytes
    """Under which digests are sealed: what is redacted in a chat could else be guessed, and each guess checked against the stored digest."""
    nodes: dict[UUID, Node] = field(default_factory=dict)

    def sealed(self, digest: bytes) -> bytes:
        """As it's stored."""
        return hmac.digest(self.key, digest, "sha256")[:DIGEST_BYTES]

    def add(self, nodes: Iterable[Node]) -> None:
        self.nodes |= {node.id: node for node in nodes}

    @property
    def last(self) -> UUID | None:
        return max(self.nodes, default=None)

    @property
    def tokens(self) -> int:
        return sum(node.tokens for node in self.nodes.values())

    def same_request(self, body_digest: bytes) -> UUID | None:
        """The latest call that asked exactly this."""
        return max((node.id for node in self.nodes.values() if node.body_digest == body_digest), default=None)

    def parent_of(self, chat_digests: Sequence[bytes], prompt: Ids | None) -> Parent:
        """The call that a request continues: the one with the longest chat that it repeats, joined by tokens wherever they agree.

        chat_digests: of each beginning of its chat.
        """
        known = {node.chat_digest: node for node in self.nodes.values()}  # of two equal replies the later one
        length, node = 0, None
        for count, digest in enumerate(chat_digests, start=1):
            if (sealed := self.sealed(digest)) in known:
                length, node = count, known[sealed]
        by_tokens = self._longest_prefix(prompt) if prompt is not None else []
        if node is None:
            return NO_PARENT
        if same := [each for each in by_tokens if each.chat_digest == node.chat_digest]:
            exact = max(same, key=lambda each: each.id)
            return Parent(
                exact.id, Join.TOKENS, length, exact.sequence_length or 0, exact.tools_digest, exact.is_redacted
            )
        return Parent(node.id, Join.MESSAGES, length, 0, node.tools_digest, node.is_redacted)

    def _longest_prefix(self, prompt: Ids) -> list[Node]:
        """The calls whose whole sequence is how `prompt` begins."""
        digests = sequence_digests(
            prompt, {each.sequence_length for each in self.nodes.values() if each.sequence_length}
        )
        return [
            node
            for node in self.nodes.values()
            if node.sequence_length in digests and self.sealed(digests[node.sequence_length]) == node.sequence_digest
        ]


def sequence_digests(ids: Ids, lengths: Iterable[int]) -> dict[int, bytes]:
    """The digest of each beginning of `ids` of one of these lengths, in one pass."""
    body = ids.astype("<i4", copy=False).tobytes()
    digest, done, found = hashlib.sha256(), 0, {}
    for length in sorted(length for length in set(lengths) if length <= len(ids)):
        digest.update(body[done * 4 : length * 4])
        done = length
        found[length] = digest.copy().digest()[:DIGEST_BYTES]
    return found
