"""The gateway's ASGI application: OpenAI's chat completions, Responses, and models, and Anthropic's Messages, authenticated by session keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from django.conf import settings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from apps.accounts import api_tokens
from apps.gateway.cached_session import CachedSession
from apps.gateway.call_memory import CallMemory, MemoryUse
from apps.gateway.dialects.anthropic_messages import AnthropicMessages
from apps.gateway.dialects.chat_completions import ChatCompletions
from apps.gateway.dialects.dialect import Dialect
from apps.gateway.dialects.steps import DIALECTS
from apps.gateway.exchange import Exchange
from apps.gateway.named_sessions import session_name
from apps.gateway.recorder import Recorder
from apps.gateway.refusals import BadRequest, Crowded, GatewayRefusal, NoSession, NotSupported, TooLarge
from apps.gateway.token_count import PATH as COUNT_PATH
from apps.gateway.token_count import count_tokens
from apps.gateway.upstream import Upstreams
from contract import jsontext
from contract.outgoing.async_transport import has_room
from contract.values import mapping

PREFIX = "/gateway/v1"
RETRY_COUNT = "x-stainless-retry-count"
"""The header with which OpenAI's and Anthropic's libraries mark retries."""
ADDRESSES = ", ".join(f"POST {PREFIX}/{dialect.path}" for dialect in DIALECTS.values()) + f", and GET {PREFIX}/models"
MAX_VALUES = 250_000
"""Values in one request's JSON: a long chat has some ten thousand. Scanning more would delay all other calls."""
Answer = Callable[[Request], Coroutine[Any, Any, Response]]

recorder = Recorder(settings.GATEWAY_SPOOL_DIR)
upstreams = Upstreams()
memory_use = MemoryUse()


def refusing(dialect: type[Dialect] = ChatCompletions) -> Callable[[Answer], Answer]:
    """Converts refusals to errors of the protocol."""

    def decorated(answer: Answer) -> Answer:
        @wraps(answer)
        async def answered(request: Request) -> Response:
            try:
                return await answer(request)
            except GatewayRefusal as refusal:
                return refusal.response(dialect.refused(refusal))
            except ClientDisconnect:
                return Response(status_code=499)  # nobody reads it

        return answered

    return decorated


def call_route(dialect: type[Dialect]) -> Route:
    """POST /v1/… in one protocol."""

    @refusing(dialect)
    async def call(request: Request) -> Response:
        cached, body = await authorized_request(request, dialect)
        is_retry = request.headers.get(RETRY_COUNT, "0") not in ("", "0")
        exchange = Exchange(
            cached,
            body,
            dialect=dialect,
            headers=request.headers,
            is_retry=is_retry,
            recorder=recorder,
            upstreams=upstreams,
        )
        return await exchange.respond(request.receive)

    return Route(f"{PREFIX}/{dialect.path}", call, methods=["POST"])


@refusing(AnthropicMessages)
async def token_count(request: Request) -> Response:
    """POST /v1/messages/count_tokens."""
    cached, body = await authorized_request(request, AnthropicMessages)
    return await count_tokens(
        cached,
        body,
        agent_headers=request.headers,
        receive=request.receive,
        recorder=recorder,
        upstreams=upstreams,
    )


async def authorized_request(request: Request, dialect: type[Dialect]) -> tuple[CachedSession, dict[str, Any]]:
    """The session of a request, and its body, which is only read for a known key. Raises GatewayRefusal."""
    key = key_of(request)
    memory_of(request).holders = await recorder.admit(key)
    body = await body_of(request, dialect)
    return await session_of(request, key, dialect, body), body


async def session_of(request: Request, key: str, dialect: type[Dialect], body: dict[str, Any]) -> CachedSession:
    """The session of a session key, or the one named by a call with an API token. Raises GatewayRefusal."""
    if not key.startswith(api_tokens.MARK):
        return await recorder.session_of(key)
    name = session_name(request.headers.get("x-session-id", ""), request.headers.get("traceparent", ""))
    return await recorder.named_session(key, name, dialect.session_fields(body))


@refusing()
async def models(request: Request) -> Response:
    """GET /v1/models: the session's model, or all that a token may call."""
    key = key_of(request)
    if key.startswith(api_tokens.MARK):
        served = [(model.name, model.created_at) for model in await recorder.models_of(key)]
    else:
        session = (await recorder.session_of(key)).session
        target = session.split or session.policy
        served = [(session.public_name, target.created_at if target else session.created_at)]
    cards = [
        {"id": name, "object": "model", "created": int(created_at.timestamp()), "owned_by": "retrace"}
        for name, created_at in served
    ]
    return JSONResponse({"object": "list", "data": cards})


@refusing()
async def elsewhere(request: Request) -> Response:
    """Any other address."""
    raise NotSupported(f"The gateway has no {request.method} {request.url.path}. It has {ADDRESSES}.")


async def not_found(request: Request, error: Exception) -> Response:
    """Handles requests that match no route, or a route with a different method."""
    return await elsewhere(request)


def key_of(request: Request) -> str:
    """The session key or API token, from the header of OpenAI's or Anthropic's libraries. Raises NoSession."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    key = key.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
    if not key:
        raise NoSession(
            "Send a session's key, or an API token, as `Authorization: Bearer …`. POST /api/v1/sessions returns the key as `api_key`."
        )
    return key


async def body_of(request: Request, dialect: type[Dialect]) -> dict[str, Any]:
    """The request in this protocol. Raises BadRequest, TooLarge, or ClientDisconnect."""
    try:
        async with asyncio.timeout(settings.GATEWAY_DEADLINE_SECONDS):
            content = await _read(request)
    except TimeoutError:
        raise BadRequest(f"The request wasn't complete after {settings.GATEWAY_DEADLINE_SECONDS:g} s.") from None
    if jsontext.has_more_values(content, MAX_VALUES):
        raise TooLarge(f"The request has more values than the {MAX_VALUES:,} that the gateway accepts.")
    try:
        body = jsontext.loads(content)
        jsontext.dumps(body)  # refuse what couldn't be stored
    except jsontext.UnreadableJSON as problem:
        raise BadRequest(f"The body can't be read: {problem}") from None
    request_body = mapping(body)
    if reason := dialect.problem_of(request_body):
        raise BadRequest(reason)
    return request_body


async def _read(request: Request) -> bytes:
    pieces, size = [], 0
    async for piece in request.stream():
        if not memory_of(request).take(len(piece)):
            raise Crowded(
                "The gateway holds as much of this workspace's calls, or of yours, as it can. Try again in a moment."
            )
        size += len(piece)
        if size > settings.GATEWAY_MAX_BYTES:
            raise TooLarge(
                f"The request is larger than the {settings.GATEWAY_MAX_BYTES >> 20} MiB that the gateway accepts."
            )
        pieces.append(piece)
    return b"".join(pieces)


def memory_of(request: Request) -> CallMemory:
    memory: CallMemory = request.scope["memory"]
    return memory


class Metered:
    """ASGI: counts what each call holds in memory, until its response is sent."""

    def __init__(self, inner: ASGIApp) -> None:
        self.inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        memory = CallMemory(memory_use)
        metered = has_room.set(memory.take)  # also for the tasks that the call starts
        try:
            await self.inner({**scope, "memory": memory}, receive, send)
        finally:
            has_room.reset(metered)
            memory.release()


routes = Starlette(
    routes=[
        *map(call_route, DIALECTS.values()),
        Route(f"{PREFIX}/{COUNT_PATH}", token_count, methods=["POST"]),
        Route(f"{PREFIX}/models", models, methods=["GET"]),
    ],
    exception_handlers={HTTPException: not_found, 404: not_found, 405: not_found},
)
gateway = Metered(routes)


class BesideGateway:
    """ASGI: the gateway at its addresses, `inner` at all others."""

    def __init__(self, inner: ASGIApp) -> None:
        self.inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        answer = gateway if path.startswith("/gateway/") else self.inner
        await answer(scope, receive, send)
