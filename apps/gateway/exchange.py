"""One call: from the agent to its policy's server and back, captured on the way, and stored before the agent gets its end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from typing import Any
from uuid import UUID

import httpx
from django.utils.timezone import now
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import Receive

from apps.common.ids import new_id
from apps.common.outages import outage_of
from apps.common.turns import Turns
from apps.gateway.cached_session import CachedSession
from apps.gateway.call_graph import Parent
from apps.gateway.call_redaction import redact
from apps.gateway.call_row import call_row
from apps.gateway.call_storage import in_database
from apps.gateway.dialects.dialect import Dialect, ReplyContext, piece_from
from apps.gateway.kept_values import NoEvent
from apps.gateway.models import Call, Join
from apps.gateway.recorder import Recorder
from apps.gateway.refusals import GatewayRefusal, NotSpoken, RecorderAway, SessionEnded, UpstreamAway
from apps.gateway.seam_bridge import GENERATE, UNSUPPORTED, SeamBridge
from apps.gateway.splits.blind_replies import hidden_status
from apps.gateway.streamed_reply import DONE, events_in
from apps.gateway.streamed_response import SSE, StreamedResponse
from apps.gateway.upstream import CANT_BE_REACHED, Destination, Upstreams, broken, is_error
from contract import jsontext
from contract.chat_digests import digest_of, prefix_digests
from contract.disconnection import cancel_on_disconnect
from contract.outgoing.replies import problem_of

logger = logging.getLogger(__name__)
BYTES_A_TOKEN = 4
MAX_AFTER_END = 100
"""Chunks accepted after the reply has ended, such as the one with the usage; then the stream is closed."""
SAMPLED_AGAIN = {"x-retrace-sampled-again": "true"}
"""Header of the reply to a retry whose first reply isn't kept unredacted."""
DIGESTS_SECONDS = 0.02
"""How long after a request its digests are computed: it has been sent by then, and hardly any reply is that fast."""
REDACTIONS = Turns(2)
"""Concurrent redactions per workspace: rules and texts can be crafted to take seconds."""


class Exchange:
    """One request of an agent."""

    def __init__(
        self,
        cached: CachedSession,
        body: dict[str, Any],
        *,
        dialect: type[Dialect],
        headers: Mapping[str, str],
        is_retry: bool,
        recorder: Recorder,
        upstreams: Upstreams,
    ) -> None:
        self.cached = cached
        self.session = cached.session
        self.body = body
        self.is_retry = is_retry
        self.began_at, self._began = now(), time.monotonic()
        self._first_seconds: float | None = None
        self.has_ended = False
        """A stream is complete; what is left of it is one chunk."""
        self._pieces = 0
        self._may_be_computed = False
        """The policy's server accepted the request, or may have: its usage counts, even if the reply is unusable."""
        self._is_bridged = False
        self._is_recorded = False
        self._recorder, self._upstreams = recorder, upstreams
        self._destination = Destination.of(cached.session)
        self._id = new_id()
        context = ReplyContext(self._id, self._model, int(self.began_at.timestamp()), self._is_blind)
        self._dialect = dialect(body, context)
        self._agent_headers = headers
        self.headers: dict[str, str] = {}
        """Additional response headers."""

    async def respond(self, receive: Receive) -> Response:
        """The policy's reply, or the stored one for a retry. Raises GatewayRefusal or ClientDisconnect."""
        self._refuse_if_ended()
        if self.is_retry and (call_id := self.cached.graph.same_request(self._digest)):
            if (replay := await self._replay(call_id)) is not None:
                return replay
            self.headers = SAMPLED_AGAIN
        try:
            await self._recorder.admit_call(self.cached)
            await self._recorder.begin(self.cached)
        except GatewayRefusal:
            self._note_unanswered()
            raise
        asyncio.get_running_loop().call_later(DIGESTS_SECONDS, self._compute_digests)
        try:
            return await cancel_on_disconnect(self._forward(), receive)
        except ClientDisconnect:
            await self.record_disconnect()
            raise
        except GatewayRefusal as refusal:
            raise await self._failed(refusal) from None
        except Exception:  # whatever a server returns, the call is recorded, and answered in the protocol's form
            logger.exception("a reply of %s could not be read", self.session.policy_name)
            raise await self._failed(UpstreamAway(self._dialect.nothing_read)) from None

    async def _forward(self) -> Response:
        if (response := await self._forward_bridged()) is not None:
            return response
        try:
            if self._may_fail_over and not self._upstreams.may_try(self._destination):
                raise UpstreamAway("The policy's server couldn't be reached just now.")
            upstream = await self._send_request()
        except UpstreamAway as refusal:
            if not await self._fails_over(refusal):
                raise
            upstream = await self._send_request()
        if not upstream.is_success:
            return await self._pass_error(upstream)
        self._may_be_computed = True
        if self.body.get("stream"):
            return StreamedResponse(self, upstream)
        return await self._pass_reply(await self._read(upstream))

    async def _forward_bridged(self) -> Response | None:
        """The reply to a prompt composed to continue the session's tokens, if a chat completion's prompt wouldn't. None: request a chat completion."""
        if not (
            self._dialect.is_everywhere and self.cached.graph.nodes and self._upstreams.may_render(self._destination)
        ):
            return None
        request = await self._request()
        if self._dialect.tokens.problem:
            return None
        bridge = SeamBridge(self._upstreams, self._destination, self.session, request)
        generation = await bridge.generation(self.cached.graph, self._dialect.messages, self._message_digests)
        if generation is None:
            return None
        upstream = await self._upstreams.send(self._destination, self.session.pk, GENERATE, generation, headers={})
        if upstream.is_client_error:  # nothing was computed
            await upstream.aclose()
            if upstream.status_code in UNSUPPORTED:
                self._upstreams.cannot_render(self._destination)
            return None
        if not upstream.is_success:
            return await self._pass_error(upstream)
        self._may_be_computed = self._is_bridged = True
        generated = await self._read(upstream)
        try:
            reply = await bridge.completion(generation, generated)
        except NoEvent:
            self._upstreams.cannot_render(self._destination)
            raise UpstreamAway(self._dialect.nothing_read) from None
        return await self._pass_reply(reply)

    def _refuse_if_ended(self) -> None:
        if not self.session.is_open:
            raise SessionEnded(f"This session is {self.session.state}. Create another one with POST /api/v1/sessions.")

    def _note_unanswered(self) -> None:
        """A retry of this request mustn't get the reply to an earlier one with the same body, which the agent has."""
        if not self.is_retry:
            self.cached.graph.note_failure(self._digest, new_id())

    @property
    def _may_fail_over(self) -> bool:
        """Whether the champion may answer instead: only the first call of a session that a split routed to an arm, before there is anything to continue."""
        session = self.session
        return session.drawn_id is not None and session.policy_id == session.drawn_id and not self.cached.graph.nodes

    async def _fails_over(self, refusal: UpstreamAway) -> bool:
        """Whether to ask the champion instead of an unreachable arm; if so, the session is moved there permanently."""
        if refusal.may_have_computed or not self._may_fail_over:
            return False
        if not await self._recorder.fail_over(self.cached, str(refusal)):
            return False
        self.session = self.cached.session
        self._destination = Destination.of(self.session)
        return True

    async def _send_request(self) -> httpx.Response:
        dialect, destination, session = self._dialect, self._destination, self.session
        if destination.is_own and not dialect.is_everywhere:
            raise NotSpoken(dialect.title)
        headers = dialect.headers(self._agent_headers)
        return await self._upstreams.send(
            destination,
            session.pk,
            dialect.path,
            await self._request(),
            headers=headers,
            takes_api_key=dialect.takes_api_key,
        )

    async def _request(self) -> dict[str, Any]:
        """The request for the policy's server. Resets the reply."""
        dialect, session = self._dialect, self.session
        supports_token_ids = dialect.is_everywhere and await self._upstreams.supports_token_ids(self._destination)
        return dialect.request(
            model=session.served_name, sampling=session.sampling, supports_token_ids=supports_token_ids
        )

    async def _pass_error(self, upstream: httpx.Response) -> Response:
        """A protocol error is passed on unchanged, except to a split's agent. Any other content at that address isn't shown to anybody."""
        try:
            content = await upstream.aread()
        except httpx.HTTPError as error:
            raise broken(error) from None
        finally:
            await upstream.aclose()
        status = upstream.status_code if 400 <= upstream.status_code < 600 else 502
        problem = problem_of(upstream)
        is_of_protocol = is_error(content)
        if status in (404, 405, 501) and not is_of_protocol and not self._dialect.is_everywhere:
            raise NotSpoken(self._dialect.title)
        await self._record(status=Call.Status.FAILED, http_status=status, error=problem)
        if self._is_blind:
            hidden = self._dialect.hidden(content, status)
            return Response(hidden, hidden_status(status), media_type="application/json")
        if is_of_protocol:
            wait = upstream.headers.get("retry-after", "")
            headers = {"retry-after": wait} if wait.isascii() and wait.isprintable() and wait else {}
            return Response(content, status, headers, media_type="application/json")
        refusal = UpstreamAway(f"The policy's server gave no reply: {problem}.")
        return JSONResponse(self._dialect.refused(refusal), status)

    async def _read(self, upstream: httpx.Response) -> dict[str, Any]:
        """The whole of a reply. Raises UpstreamAway."""
        try:
            return piece_from(b"".join([piece async for piece in upstream.aiter_raw()]))  # never compressed
        except httpx.HTTPError as error:
            raise broken(error) from None
        except NoEvent:
            raise UpstreamAway(self._dialect.nothing_read) from None
        finally:
            await upstream.aclose()

    async def _pass_reply(self, reply: dict[str, Any]) -> Response:
        try:
            self._dialect.process_reply(reply)
        except NoEvent:
            raise UpstreamAway(self._dialect.nothing_read) from None
        if failure := self._dialect.failure_in(reply):
            raise UpstreamAway(f"The policy's server failed: {failure}")
        await self._record(status=Call.Status.OK, http_status=200, reply=reply)
        return self._unstreamed_response(reply, self.headers)

    async def _failed(self, refusal: GatewayRefusal) -> GatewayRefusal:
        self._may_be_computed |= isinstance(refusal, UpstreamAway) and refusal.may_have_computed
        await self._record(status=Call.Status.FAILED, http_status=refusal.status, error=str(refusal))
        if self._is_blind and isinstance(refusal, UpstreamAway) and not refusal.may_have_computed:
            return UpstreamAway(CANT_BE_REACHED)  # other errors name the server
        return refusal

    @property
    def _is_blind(self) -> bool:
        """Its agent must not learn which policy of a split answers."""
        return self.session.split_id is not None

    async def _replay(self, call_id: UUID) -> Response | None:
        """The stored reply: an agent's library retries if the reply was lost, and a second sample would differ.

        None if it isn't kept unredacted anywhere.
        """
        if (stored := self._recorder.reply_of(call_id)) is not None:
            return self._replayed(stored)
        try:
            call = await in_database(Call.objects.only("reply", "is_redacted").get, pk=call_id)
        except Exception as error:
            if outage_of(error) is None and not isinstance(error, Call.DoesNotExist):
                raise
            raise RecorderAway(
                "The reply is kept in a file until Retrace's database is back. Try again in a moment."
            ) from None
        return None if call.is_redacted else self._replayed(call.reply or {})

    def _replayed(self, reply: Any) -> Response:
        return self._unstreamed_response(reply, {"x-retrace-replayed": "true"})

    def _unstreamed_response(self, reply: Any, headers: Mapping[str, str]) -> Response:
        """A complete reply, as a stream if the agent requested one."""
        if not self.body.get("stream"):
            return Response(jsontext.dumps(reply), headers=headers, media_type="application/json")
        return Response(self._dialect.stream_of(reply), headers={**SSE, **headers})

    async def streamed(self, upstream: httpx.Response) -> AsyncIterator[bytes]:
        """The agent's stream, chunk by chunk. The final chunk is held back until the call is stored."""
        dialect = self._dialect
        held: list[bytes] = []
        pieces = upstream.aiter_raw()
        try:
            async for data in events_in(pieces):
                if data == DONE:
                    break
                chunk = piece_from(data)
                if failure := dialect.failure_in(chunk):
                    hidden = dialect.event_of(jsontext.loads(dialect.hidden(data, 502))) if self._is_blind else b""
                    yield hidden or dialect.passed_on(chunk)
                    self._may_be_computed = self._pieces > 0
                    await self._record(status=Call.Status.FAILED, http_status=200, error=failure)
                    return
                self._first_seconds = self._first_seconds or time.monotonic() - self._began
                self._pieces += 1
                piece = dialect.process_chunk(chunk)
                if dialect.has_ended:
                    held.append(piece)
                elif piece:
                    yield piece
                if dialect.is_over or len(held) > MAX_AFTER_END:
                    break
            if not dialect.has_ended:
                raise UpstreamAway("The policy's server ended its reply before it was complete.")
            self.has_ended = True
            await self._record(status=Call.Status.OK, http_status=200, reply=dialect.reply())
        except Exception as error:
            if not isinstance(error, (httpx.HTTPError, NoEvent, UpstreamAway)):
                logger.exception("a streamed reply of %s could not be read", self.session.policy_name)
            refusal = await self._failed(self._streams_end(error))
            yield dialect.event_of(dialect.refused(refusal))
            return
        finally:
            if self.has_ended:
                self._upstreams.close_ended(upstream, pieces)
            else:
                await upstream.aclose()
        yield b"".join(held) + dialect.ending()

    def _streams_end(self, error: Exception) -> UpstreamAway:
        if isinstance(error, UpstreamAway):
            return error
        return broken(error) if isinstance(error, httpx.HTTPError) else UpstreamAway(self._dialect.nothing_read)

    async def record_disconnect(self) -> None:
        """Handles an agent that disconnected during a stream."""
        await self._record(status=Call.Status.CANCELLED, http_status=499, error="The agent disconnected.")

    @property
    def _model(self) -> str:
        """The model name in replies is the one that the agent requested."""
        model = self.body.get("model")
        return model if isinstance(model, str) else self.session.public_name

    async def _record(
        self, *, status: Call.Status, http_status: int, reply: dict[str, Any] | None = None, error: str = ""
    ) -> None:
        """Record the call once: if the agent disconnects while it's being stored, there is no second record."""
        if not self._is_recorded:
            parent, call = self._call(status, http_status, reply, error)
            self._is_recorded = True
            tokens = self._tokens(call)
            call.cost, call.is_cost_estimated = self.cached.terms.cost_of(call, *tokens)
            await asyncio.shield(self._store(call, parent, sum(tokens)))

    async def _store(self, call: Call, parent: Parent, tokens: int) -> None:
        reply = call.reply
        if self.cached.rules or parent.is_redacted:
            messages, tools = self._dialect.messages, self.body.get("tools")
            fields: dict[str, Any] = {"messages": messages, "tools": tools, "parent_is_redacted": parent.is_redacted}
            fields["withheld"] = self._dialect.withheld
            async with REDACTIONS.of(call.session.workspace_id):
                await asyncio.to_thread(redact, call, self.cached.rules, **fields)
        await self._recorder.record(self.cached, call, tokens)
        if call.is_redacted and reply is not None:
            self._recorder.remember(call.pk, reply)

    def _tokens(self, call: Call) -> tuple[int, int]:
        """Tokens read and written, for budgets. If the server didn't count them, or the agent disconnected first, they're estimated.

        Only a call that was certainly not computed is free: otherwise an agent could endlessly request unusable replies.
        """
        if call.status == Call.Status.FAILED and not self._may_be_computed:
            return 0, 0
        read, written = call.prompt_tokens, call.completion_tokens
        if read is None:
            read = len(jsontext.dumps(self._dialect.messages)) // BYTES_A_TOKEN
        if written is None:
            written = self._pieces or len(jsontext.dumps(call.reply)) // BYTES_A_TOKEN
        return read, written

    def _call(
        self, status: Call.Status, http_status: int, reply: dict[str, Any] | None, error: str
    ) -> tuple[Parent, Call]:
        parent, call = call_row(
            self._dialect,
            self.cached.graph,
            self._message_digests,
            reply,
            session=self.session,
            status=status,
            is_retry=self.is_retry,
            error=error,
            http_status=http_status,
            body_digest=self._digest,
            seconds=time.monotonic() - self._began,
            first_seconds=self._first_seconds,
            began_at=self.began_at,
        )
        call.is_bridged = self._is_bridged and parent.join == Join.TOKENS
        return parent, call

    def _compute_digests(self) -> None:
        """While the server computes, so that the agent doesn't wait for them at the end."""
        _ = self._digest, self._message_digests

    @cached_property
    def _digest(self) -> bytes:
        """Identifies the request when it's retried."""
        body = self.body if self._dialect.is_everywhere else [self._dialect.name, self.body]
        return self.cached.graph.sealed(digest_of(body))

    @cached_property
    def _message_digests(self) -> list[bytes]:
        """A digest of each prefix of the agent's messages."""
        return prefix_digests(self._dialect.messages, self._dialect.normalized)
