"""Continues a session in exactly its tokens where the server's chat template would render the policy's replies in other ones.

An agent sends replies back as messages. Rendered, these may become other tokens than the policy sampled: a parser dropped a space, or the same text
was sampled in other pieces. The prompt of such a call is composed here of the tokens of the call before, and what the template adds after its
reply. vLLM takes it with `--enable-scale-out`, which offers what a chat completion does as separate requests: render, generate, derender.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx
import numpy as np
from django.db import connection

from apps.common.outages import outage_of
from apps.gateway.call_graph import CallGraph, Ids
from apps.gateway.call_storage import in_turn
from apps.gateway.models import Call, Join, Session
from apps.gateway.refusals import GatewayRefusal
from apps.gateway.session_trajectories import ids_from
from apps.gateway.streamed_reply import NoEvent
from apps.gateway.token_capture import is_ids
from apps.gateway.upstream import AWAY_SECONDS, Destination, Upstreams
from contract.outgoing.replies import json_of
from contract.values import mapping

RENDER = "chat/completions/render"
GENERATE = "/inference/v1/generate"
DERENDER = "chat/completions/derender"
RENDER_SECONDS = 10.0
MAX_AFTER_END = 8
"""Tokens that a chat template may write after the token that ends a turn, such as a line break."""
UNSUPPORTED = (403, 404, 405, 501)
"""Statuses of a server that never answers such a request. vLLM without `--enable-scale-out` says 403."""
SYSTEM = ("system", "developer")
MAX_TOKENS = 1 << 20
"""Of a call that is continued. A server may return millions, and all are read at once."""
MAX_CALLS = 2000
"""Calls in a row whose tokens are read."""
CHAIN = """
WITH RECURSIVE chain (id, parent_id, kind, prompt_ids, sampled_ids, depth) AS (
    SELECT id, parent_id, "join", prompt_ids, sampled_ids, 1 FROM gateway_call WHERE id = %s
    UNION ALL
    SELECT before.id, before.parent_id, before."join", before.prompt_ids, before.sampled_ids, depth + 1
    FROM chain JOIN gateway_call before ON before.id = chain.parent_id
    WHERE chain.kind = 'tokens' AND depth < %s
)
SELECT kind, prompt_ids, sampled_ids FROM chain ORDER BY depth
"""
"""A call with those that it continues token by token, the latest first. In one statement: a call isn't to take as many as its session has calls."""


@dataclass(frozen=True)
class Continued:
    """The tokens of a call that is continued."""

    sequence: Ids
    """Prompt and reply."""
    rendered: int
    """How many of them, from the first, are a prompt as the server rendered it."""


@dataclass(frozen=True)
class SeamBridge:
    """One request of a session, in chat completions."""

    upstreams: Upstreams
    destination: Destination
    session: Session
    request: dict[str, Any]
    """As for a chat completion."""

    async def generation(
        self, graph: CallGraph, messages: Sequence[dict[str, Any]], digests: Sequence[bytes]
    ) -> dict[str, Any] | None:
        """The request for `GENERATE`. None if a chat completion would continue the session's tokens too, or nothing can be done about it.

        digests: of each prefix of `messages`.
        """
        node = graph.continued(digests)
        if node is None or not 0 < (node.sequence_length or 0) <= MAX_TOKENS:
            return None
        whole = await self._rendered(self.request)
        if whole is None or whole.get("features"):  # images are more than their tokens
            return None
        rendered = np.array(whole["token_ids"], np.int32)
        parent = graph.parent_of(digests, rendered)
        before = messages[: parent.messages]
        if parent.id is None or parent.join != Join.MESSAGES or _has_late_system_message(before):
            return None
        continued = await _stored_tokens_of(self.session, parent.id)
        shared = await self._rendered({**self.request, "messages": before, "add_generation_prompt": False})
        if continued is None or shared is None:
            return None
        prompt = bridged(continued, rendered, np.array(shared["token_ids"], np.int32))
        return None if prompt is None else self._with_prompt(whole, prompt)

    async def completion(self, generation: dict[str, Any], generated: dict[str, Any]) -> dict[str, Any]:
        """The reply to `generation` as a chat completion. Raises NoEvent."""
        body = {
            "model": self.request["model"],
            "generate_response": generated,
            "prompt_token_ids": generation["token_ids"],
            "chat_request": self.request,
        }
        reply = await self._answer(DERENDER, body)
        if reply is None:
            raise NoEvent
        choices = reply.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if mapping(mapping(choice).get("message")).get("tool_calls") and choice.get("finish_reason") == "stop":
                choice["finish_reason"] = "tool_calls"  # as in a chat completion
        usage = generated.get("usage") or reply.get("usage")  # as the engine counted, if it did
        return {**reply, "prompt_token_ids": generated.get("prompt_token_ids"), "usage": usage}

    def _with_prompt(self, whole: dict[str, Any], prompt: Ids) -> dict[str, Any]:
        sampling = dict(mapping(whole.get("sampling_params")))
        longer = len(prompt) - len(whole["token_ids"])
        limit = sampling.get("max_tokens")
        max_tokens = self.request.get("max_completion_tokens") or self.request.get("max_tokens")
        if (
            longer > 0 and type(limit) is int and limit != max_tokens
        ):  # it's what the rendered prompt leaves of the context
            sampling["max_tokens"] = max(limit - longer, 1)
        changed = {"token_ids": prompt.tolist(), "sampling_params": sampling, "stream": False, "stream_options": None}
        return {**whole, **changed, "return_token_ids": True}

    async def _rendered(self, request: dict[str, Any]) -> dict[str, Any] | None:
        whole = await self._answer(RENDER, {**request, "stream": False, "stream_options": None})
        return whole if whole is not None and whole.get("token_ids") and is_ids(whole["token_ids"]) else None

    async def _answer(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """A JSON object; None if the server has none."""
        try:
            response = await self.upstreams.send(
                self.destination, self.session.pk, path, body, headers={}, seconds=RENDER_SECONDS
            )
            try:
                await response.aread()
            finally:
                await response.aclose()
            if response.status_code in UNSUPPORTED:
                self.upstreams.cannot_render(self.destination)
            answer = json_of(response) if response.is_success else None
        except (httpx.HTTPError, GatewayRefusal):
            self.upstreams.cannot_render(self.destination, AWAY_SECONDS)
            return None
        except (ValueError, RecursionError):
            return None
        return answer if isinstance(answer, dict) else None


def bridged(continued: Continued, rendered: Ids, shared: Ids) -> Ids | None:
    """The prompt that continues `continued`; None if template and tokens have nothing in common to join them at.

    rendered: the whole chat. shared: the chat up to the reply that is continued.
    """
    sequence, rendered_length = continued.sequence, continued.rendered
    ends = np.flatnonzero(shared[-1 - MAX_AFTER_END :] == sequence[-1])
    if not len(ends):
        return None
    joint = max(len(shared) - 1 - MAX_AFTER_END, 0) + int(ends[-1]) + 1
    is_prefix = np.array_equal(rendered[:joint], shared[:joint])
    is_same_beginning = np.array_equal(rendered[:rendered_length], sequence[:rendered_length])
    if not (is_prefix and is_same_beginning) or joint == len(rendered):
        return None
    return np.concatenate([sequence, rendered[joint:]])


async def _stored_tokens_of(session: Session, call_id: UUID) -> Continued | None:
    """An agent doesn't stop because the database is away: its call gets a seam."""
    try:
        return await in_turn(session, tokens_of, call_id)
    except Exception as error:
        if outage_of(error) is None:
            raise
        return None


def tokens_of(call_id: UUID) -> Continued | None:
    """The tokens of a stored call whose turn the policy ended; None if some aren't stored, or there are too many calls."""
    reply = Call.objects.filter(pk=call_id).values_list("reply", flat=True).first()
    if not _has_ended_turn(reply):
        return None
    with connection.cursor() as cursor:
        cursor.execute(CHAIN, [call_id, MAX_CALLS])
        chain = cursor.fetchall()
    if not chain or any(None in (prompt, sampled) for _, prompt, sampled in chain) or chain[-1][0] == Join.TOKENS:
        return None
    pieces = [ids_from(ids) for _, prompt, sampled in reversed(chain) for ids in (prompt, sampled)]
    return Continued(np.concatenate(pieces), len(pieces[0]))


def _has_ended_turn(reply: Any) -> bool:
    """Whether the last token is the one that ends a turn: not where a limit or a stop string cut the reply."""
    choices = mapping(reply).get("choices")
    choice = mapping(choices[0]) if isinstance(choices, list) and choices else {}
    return choice.get("finish_reason") in ("stop", "tool_calls") and choice.get("stop_reason") is None


def _has_late_system_message(messages: Sequence[dict[str, Any]]) -> bool:
    """Whether there is one after the beginning, where a change of it isn't noticed: digests don't cover system messages."""
    roles = [message.get("role") in SYSTEM for message in messages]
    return any(is_system and not all(roles[:index]) for index, is_system in enumerate(roles))
