"""Finds the earlier call of a session that a new call continues. Calls are compared by digests, so earlier ones are neither kept in memory nor read again.

If the engine returns token ids, a call continues another if its prompt begins with that call's prompt and reply, token by token. Otherwise messages
are compared: agents send a reply back with different spacing in the arguments, or null for no content, so content is normalized first.
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
from contract.chat_digests import DIGEST_BYTES, is_system
from contract.values import Json

Ids = NDArray[np.int32]
NODE_COLUMNS = (
    *("id", "body_digest", "chat_digest", "sequence_length", "sequence_digest", "tools_digest"),
    *("prompt_tokens", "completion_tokens", "is_redacted"),
)
"""Columns of a call, in the order of `Node.of_columns`."""


@dataclass(frozen=True, slots=True)
class Node:
    """An answered call, reduced to what later ones need."""

    id: UUID
    body_digest: bytes
    chat_digest: bytes
    sequence_length: int | None
    sequence_digest: bytes | None
    tools_digest: bytes
    tokens: int
    """Tokens used, counted against the session's budget."""
    is_redacted: bool = False
    """Part of its chat isn't stored."""

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
        """Digests may be the database's memoryviews."""
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
    """The call that another continues, and what the two share."""

    id: UUID | None
    join: Join
    messages: int = 0
    """Number of messages shared with the previous chat, its reply included."""
    tokens: int = 0
    """Number of prompt token ids shared with the previous call, its sampled ones included."""
    tools_digest: bytes = b""
    """Digest of the tools offered in the previous call."""
    is_redacted: bool = False
    """Part of the previous chat isn't stored."""


NO_PARENT = Parent(None, Join.ROOT)


@dataclass
class CallGraph:
    """The answered calls of one session, indexed as they're added: a session may have hundreds of thousands, and each call looks among them."""

    key: bytes
    """Key for sealing digests: otherwise redacted text could be guessed, and each guess checked against the stored digest."""
    nodes: dict[UUID, Node] = field(default_factory=dict, init=False)
    tokens: int = field(default=0, init=False)
    """Total tokens used."""
    last: UUID | None = field(default=None, init=False)
    """The latest call, answered or not."""
    _by_body: dict[bytes, UUID] = field(default_factory=dict, init=False)
    """The latest call with each request."""
    _failed: dict[bytes, UUID] = field(default_factory=dict, init=False)
    """The latest failed call with each request, not counting retries."""
    _by_chat: dict[bytes, Node] = field(default_factory=dict, init=False)
    """Of equal chats, the one that was added last."""
    _by_sequence: dict[int, dict[bytes, list[Node]]] = field(default_factory=dict, init=False)
    """The calls by the length of their token sequence and its digest."""

    def sealed(self, digest: bytes) -> bytes:
        """The digest as stored."""
        return hmac.digest(self.key, digest, "sha256")[:DIGEST_BYTES]

    def add(self, nodes: Iterable[Node]) -> None:
        """Add calls; known ones are ignored."""
        for node in nodes:
            if node.id not in self.nodes:
                self.nodes[node.id] = node
                self._index(node)

    def _index(self, node: Node) -> None:
        self.tokens += node.tokens
        self._note_latest(self._by_body, node.body_digest, node.id)
        self._by_chat[node.chat_digest] = node
        if node.sequence_length and node.sequence_digest is not None:
            self._by_sequence.setdefault(node.sequence_length, {}).setdefault(node.sequence_digest, []).append(node)

    def same_request(self, body_digest: bytes) -> UUID | None:
        """The call whose reply a retry with exactly this request body has missed. If one failed later, a retry is of that, not of an earlier sample,
        which the agent has.
        """
        answered = self._by_body.get(body_digest)
        return None if answered is None or answered < self._failed.get(body_digest, answered) else answered

    def note_failure(self, body_digest: bytes, call_id: UUID) -> None:
        """A call with this body, not itself a retry, failed or was refused."""
        self._note_latest(self._failed, body_digest, call_id)

    def _note_latest(self, calls: dict[bytes, UUID], body_digest: bytes, call_id: UUID) -> None:
        calls[body_digest] = max(calls.get(body_digest, call_id), call_id)
        self.last = max(self.last or call_id, call_id)

    def continued(self, chat_digests: Sequence[bytes]) -> Node | None:
        """The call whose chat is the longest prefix of a chat with these digests."""
        return self._longest_chat(chat_digests)[1]

    def _longest_chat(self, chat_digests: Sequence[bytes]) -> tuple[int, Node | None]:
        """The call that `continued` returns, and the number of messages in its chat, reply included; 0 if there is none."""
        length, node = 0, None
        for count, digest in enumerate(chat_digests, start=1):
            if (match := self._by_chat.get(self.sealed(digest))) is not None:
                length, node = count, match
        return length, node

    def parent_of(self, chat: Sequence[Json], chat_digests: Sequence[bytes], prompt: Ids | None) -> Parent:
        """The call that a request continues: the one whose chat is its longest prefix, joined by tokens if they match.

        chat_digests: of each prefix of its chat.
        """
        length, node = self._longest_chat(chat_digests)
        while length and is_system(chat[length - 1]):  # digests ignore it, but no reply ends with one
            length -= 1
        by_tokens = self._longest_prefix(prompt) if prompt is not None else []
        if node is None:
            return NO_PARENT
        if same := [candidate for candidate in by_tokens if candidate.chat_digest == node.chat_digest]:
            exact = max(same, key=lambda candidate: candidate.id)
            return Parent(
                exact.id, Join.TOKENS, length, exact.sequence_length or 0, exact.tools_digest, exact.is_redacted
            )
        return Parent(node.id, Join.MESSAGES, length, 0, node.tools_digest, node.is_redacted)

    def _longest_prefix(self, prompt: Ids) -> list[Node]:
        """The calls whose whole sequence is a prefix of `prompt`."""
        digests = sequence_digests(prompt, self._by_sequence)
        return [
            node
            for length, digest in digests.items()
            for node in self._by_sequence[length].get(self.sealed(digest), [])
        ]


def sequence_digests(ids: Ids, lengths: Iterable[int]) -> dict[int, bytes]:
    """The digests of the prefixes of `ids` with these lengths, in one pass."""
    body = ids.astype("<i4", copy=False).tobytes()
    digest, done, digests = hashlib.sha256(), 0, {}
    for length in sorted(length for length in set(lengths) if length <= len(ids)):
        digest.update(body[done * 4 : length * 4])
        done = length
        digests[length] = digest.copy().digest()[:DIGEST_BYTES]
    return digests
