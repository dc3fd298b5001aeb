"""Continues a session with its exact tokens when the server's chat template would render the policy's replies to different ones.

Agents send replies back as messages. Rendering those may yield other tokens than the policy sampled: a parser dropped a space, or the same text
was sampled as different tokens. So the prompt is composed here: the tokens of the previous call, then what the template adds after its reply.
vLLM accepts such prompts with `--enable-scale-out`, which splits a chat completion into three requests: render, generate, and derender.
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
from apps.gateway.kept_values import NoEvent
from apps.gateway.models import Call, Join, Session
from apps.gateway.refusals import GatewayRefusal
from apps.gateway.session_trajectories import ids_from
from apps.gateway.token_capture import is_ids
from apps.gateway.upstream import AWAY_SECONDS, Destination, Upstreams
from contract.chat_digests import is_system
from contract.outgoing.replies import json_of
from contract.values import mapping

RENDER = "chat/completions/render"
GENERATE = "/inference/v1/generate"
DERENDER = "chat/completions/derender"
RENDER_SECONDS = 10.0
MAX_AFTER_END = 8
"""Maximum number of tokens that a chat template adds after the token that ends a turn, such as a line break."""
UNSUPPORTED = (403, 404, 405, 501)
"""Status codes of servers that don't support these requests. vLLM without `--enable-scale-out` returns 403."""
STOPS = ("stop", "stop_token_ids")
"""Parameters of a request that may cut its reply."""
MAX_TOKENS = 1 << 20
"""Maximum length of a call to continue. A server may return millions of tokens, and all are read at once."""
MAX_CALLS = 2000
"""Maximum number of consecutive calls whose tokens are read."""
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
"""Selects a call and those that it continues token by token, the latest first. One statement, rather than one for each call of the session."""


@dataclass(frozen=True)
class Continued:
    """The tokens of a call to continue."""

    sequence: Ids
    """Prompt and reply."""
    rendered: int
    """How many of them, from the first, are a prompt rendered by the server."""


@dataclass(frozen=True)
class SeamBridge:
    """One chat completion request of a session."""

    upstreams: Upstreams
    destination: Destination
    session: Session
    request: dict[str, Any]
    """The request as for a chat completion."""

    async def generation(
        self, graph: CallGraph, messages: Sequence[dict[str, Any]], digests: Sequence[bytes]
    ) -> dict[str, Any] | None:
        """The request for `GENERATE`. None if a chat completion would continue the session's tokens as well, or if they can't be continued.

        digests: of each prefix of `messages`.
        """
        node = graph.continued(digests)
        if node is None or not 0 < (node.sequence_length or 0) <= MAX_TOKENS:
            return None
        whole = await self._rendered(self.request)
        if whole is None or whole.get("features"):  # an image isn't represented by its tokens alone
            return None
        rendered = np.array(whole["token_ids"], np.int32)
        parent = graph.parent_of(messages, digests, rendered)
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
        usage = generated.get("usage") or reply.get("usage")  # prefer the engine's count
        return {**reply, "prompt_token_ids": generated.get("prompt_token_ids"), "usage": usage}

    def _with_prompt(self, whole: dict[str, Any], prompt: Ids) -> dict[str, Any]:
        sampling = dict(mapping(whole.get("sampling_params")))
        longer = len(prompt) - len(whole["token_ids"])
        limit = sampling.get("max_tokens")
        max_tokens = self.request.get("max_completion_tokens") or self.request.get("max_tokens")
        # A limit that the request doesn't set is what the rendered prompt leaves of the context.
        if longer > 0 and type(limit) is int and limit != max_tokens:
            sampling["max_tokens"] = max(limit - longer, 1)
        changed = {"token_ids": prompt.tolist(), "sampling_params": sampling, "stream": False, "stream_options": None}
        return {**whole, **changed, "return_token_ids": True}

    async def _rendered(self, request: dict[str, Any]) -> dict[str, Any] | None:
        whole = await self._answer(RENDER, {**request, "stream": False, "stream_options": None})
        return whole if whole is not None and whole.get("token_ids") and is_ids(whole["token_ids"]) else None

    async def _answer(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """The JSON object in the server's response; None if there is none."""
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
    """The prompt that continues `continued`; None if the rendered text and the tokens can't be joined.

    rendered: the whole chat. shared: the chat up to and including the reply to continue.
    """
    sequence, rendered_length, end = continued.sequence, continued.rendered, continued.sequence[-1]
    ends = np.flatnonzero(shared[-1 - MAX_AFTER_END :] == end)
    if not len(ends):
        return None
    joint = max(len(shared) - 1 - MAX_AFTER_END, 0) + int(ends[-1]) + 1
    # Some templates end a turn by beginning the next one (GLM): the end that was found is then that of an earlier message.
    if np.count_nonzero(shared[:joint] == end) < np.count_nonzero(sequence == end):
        return None
    is_prefix = np.array_equal(rendered[:joint], shared[:joint])
    is_same_beginning = np.array_equal(rendered[:rendered_length], sequence[:rendered_length])
    if not (is_prefix and is_same_beginning) or joint == len(rendered):
        return None
    return np.concatenate([sequence, rendered[joint:]])


async def _stored_tokens_of(session: Session, call_id: UUID) -> Continued | None:
    """The tokens of a stored call. None if the database is down: the call then gets a seam instead of an error."""
    try:
        return await in_turn(session, tokens_of, call_id)
    except Exception as error:
        if outage_of(error) is None:
            raise
        return None


def tokens_of(call_id: UUID) -> Continued | None:
    """The tokens of a stored call in which the policy ended its turn; None if some aren't stored, or there are too many calls."""
    call = Call.objects.filter(pk=call_id).only("request", "reply").first()
    if call is None or not _has_ended_turn(call):
        return None
    with connection.cursor() as cursor:
        cursor.execute(CHAIN, [call_id, MAX_CALLS])
        chain = cursor.fetchall()
    if not chain or any(None in (prompt, sampled) for _, prompt, sampled in chain) or chain[-1][0] == Join.TOKENS:
        return None
    pieces = [ids_from(ids) for _, prompt, sampled in reversed(chain) for ids in (prompt, sampled)]
    return Continued(np.concatenate(pieces), len(pieces[0]))


def _has_ended_turn(call: Call) -> bool:
    """Whether the last token is the one that ends a turn; it isn't if a limit or a stop string cut the reply."""
    choices = mapping(call.reply).get("choices")
    choice = mapping(choices[0]) if isinstance(choices, list) and choices else {}
    if choice.get("finish_reason") not in ("stop", "tool_calls"):
        return False
    if "stop_reason" in choice:
        return choice["stop_reason"] is None
    return not any(map(mapping(call.request).get, STOPS))  # a split's replies don't say what cut them


def _has_late_system_message(messages: Sequence[dict[str, Any]]) -> bool:
    """Whether a system message comes after the beginning. Digests don't cover system messages, so a change of it would go unnoticed."""
    are_system = list(map(is_system, messages))
    return any(is_late and not all(are_system[:index]) for index, is_late in enumerate(are_system))
