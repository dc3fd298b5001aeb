"""The row of a call: what it adds to the call that it continues, and digests that later calls find it by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apps.gateway.call_graph import CallGraph, Ids, Parent, sequence_digests
from apps.gateway.dialects.dialect import Dialect, Usage
from apps.gateway.models import Call
from contract.chat_digests import digest_of, prefix_digests


def call_row(
    dialect: Dialect, graph: CallGraph, message_digests: Sequence[bytes], reply: dict[str, Any] | None, **columns: Any
) -> tuple[Parent, Call]:
    """An unsaved row, and the call that it continues.

    message_digests: of each prefix of the request's messages. columns: those that follow from neither request nor reply.
    """
    body, messages, tokens = dialect.body, dialect.messages, dialect.tokens
    usage = dialect.usage if reply else Usage()
    tokens.check(usage.read, usage.written)
    prompt, sampled = (tokens.prompt_ids, tokens.sampled_ids) if reply else (None, None)
    parent = graph.parent_of(messages, message_digests, prompt)
    before_reply = message_digests[-1] if message_digests else b""
    items = dialect.items_of(reply) if reply else []
    chat_digest = [before_reply, *prefix_digests(items, dialect.normalized, after=before_reply)][-1]
    tools_digest = graph.sealed(digest_of(body.get("tools")))
    sequence = None if prompt is None or sampled is None else np.concatenate([prompt, sampled])
    return parent, Call(
        parent_id=parent.id,
        join=parent.join,
        dialect=dialect.name,
        request={name: value for name, value in body.items() if name not in dialect.fields_stored_apart},
        messages=messages[parent.messages :],
        tools=None if tools_digest == parent.tools_digest else body.get("tools"),
        tools_digest=tools_digest,
        reply=reply,
        prompt_tokens=usage.read,
        completion_tokens=usage.written,
        cached_tokens=usage.cached,
        prompt_ids=None if prompt is None else _bytes(prompt[parent.tokens :]),
        sampled_ids=None if sampled is None else _bytes(sampled),
        logprobs=None if sampled is None else np.array(tokens.logprobs, "<f4").tobytes(),
        untrainable=tokens.problem if reply else "It has no reply.",
        chat_digest=graph.sealed(chat_digest),
        sequence_length=None if sequence is None else len(sequence),
        sequence_digest=None
        if sequence is None
        else graph.sealed(sequence_digests(sequence, {len(sequence)})[len(sequence)]),
        **columns,
    )


def _bytes(ids: Ids) -> bytes:
    return ids.astype("<i4").tobytes()
