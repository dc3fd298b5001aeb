"""Token count of a prompt by the policy's server: Anthropic's `/v1/messages/count_tokens`. Nothing is sampled, so nothing is recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
from starlette.responses import Response
from starlette.types import Receive

from apps.gateway.cached_session import CachedSession
from apps.gateway.dialects.anthropic_messages import AnthropicMessages
from apps.gateway.dialects.dialect import ReplyContext, count, piece_from
from apps.gateway.kept_values import NoEvent
from apps.gateway.recorder import Recorder
from apps.gateway.refusals import NotSpoken, SessionEnded, UpstreamAway
from apps.gateway.splits.blind_replies import hidden_status
from apps.gateway.upstream import CANT_BE_REACHED, Destination, Upstreams, broken, is_error
from contract import jsontext
from contract.disconnection import cancel_on_disconnect
from contract.outgoing.replies import problem_of

PATH = f"{AnthropicMessages.path}/count_tokens"
TITLE = "Anthropic's counting of tokens (/v1/messages/count_tokens)"


async def count_tokens(
    cached: CachedSession,
    body: dict[str, Any],
    *,
    agent_headers: Mapping[str, str],
    receive: Receive,
    recorder: Recorder,
    upstreams: Upstreams,
) -> Response:
    """The policy's server's response. It counts against the requests per minute, but not against the session's budget. Raises GatewayRefusal or
    ClientDisconnect."""
    session = cached.session
    if not session.is_open:
        raise SessionEnded(f"This session is {session.state}. Create another one with POST /api/v1/sessions.")
    destination = Destination.of(session)
    if destination.is_own:
        raise NotSpoken(TITLE)
    await recorder.admit_call(cached)
    is_blind = session.split_id is not None
    dialect = AnthropicMessages(body, ReplyContext(session.pk, session.public_name, 0, is_blind))
    asking = upstreams.send(
        destination,
        session.pk,
        PATH,
        {**body, "model": session.served_name},
        headers=dialect.headers(agent_headers),
        takes_api_key=dialect.takes_api_key,
    )
    try:
        upstream = await cancel_on_disconnect(asking, receive)
    except UpstreamAway as refusal:
        raise (UpstreamAway(CANT_BE_REACHED) if is_blind else refusal) from None
    try:
        content = await cancel_on_disconnect(upstream.aread(), receive)
    except httpx.HTTPError as error:
        raise broken(error) from None
    finally:
        await upstream.aclose()
    if not upstream.is_success:
        return _error(upstream, content, dialect, is_blind=is_blind)
    try:
        read = count(piece_from(content).get("input_tokens"))
    except NoEvent:
        read = None
    if read is None:
        raise UpstreamAway("The policy's server sent something other than a token count.")
    if is_blind:
        content = jsontext.dumps({"input_tokens": read})
    return Response(content, media_type="application/json")


def _error(upstream: httpx.Response, content: bytes, dialect: AnthropicMessages, *, is_blind: bool) -> Response:
    status = upstream.status_code if 400 <= upstream.status_code < 600 else 502
    is_of_protocol = is_error(content)
    if status in (404, 405, 501) and not is_of_protocol:
        raise NotSpoken(TITLE)
    if is_blind:
        return Response(dialect.hidden(content, status), hidden_status(status), media_type="application/json")
    if not is_of_protocol:
        raise UpstreamAway(f"The policy's server gave no count: {problem_of(upstream)}.")
    return Response(content, status, media_type="application/json")
