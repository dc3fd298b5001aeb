"""POST /v1/traces, the endpoint for OpenTelemetry exporters: OTLP over HTTP, in protobuf or JSON.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, ParamSpec, TypeVar
from uuid import UUID

import orjson
from channels.db import database_sync_to_async
from django.conf import settings
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from apps.accounts.authentication import digest_of, note_use
from apps.accounts.models import ApiToken, Role
from apps.common.outages import outage_of
from apps.common.query_time_limit import is_locked
from apps.common.turns import Turns
from apps.redaction.rules import rules_of
from apps.traces import protobuf
from apps.traces.export_request import Batch, Unreadable, read_json, read_protobuf
from apps.traces.span_store import StorageFull, store_spans

P = ParamSpec("P")
T = TypeVar("T")
PATH = "/v1/traces"
PROTOBUF, JSON = "application/x-protobuf", "application/json"
READ_SECONDS = 60
RECHECK_SECONDS = 1.0
"""After this time the token is checked again before anything is stored: it may have been revoked, or its owner removed."""
MAX_AT_ONCE = 24
"""Maximum number of request bodies that one process holds. Exporters retry the others."""
MAX_EACH = 6
"""The share of one workspace, and of one person, who may have many workspaces, so that slow uploads, on purpose or over a bad connection, delay
nobody else.
"""
MAX_MEMBERS = 16
"""Maximum number of gzip members in one body, since each one copies the rest of it."""
INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE, UNAUTHENTICATED, UNIMPLEMENTED = 3, 8, 14, 16, 12
"""Codes of google.rpc.Status."""
THREADS = ThreadPoolExecutor(2, thread_name_prefix="traces")


class Refusal(Exception):
    """The request is refused. `retry_after` is in seconds, for requests that exporters should retry."""

    def __init__(self, status: int, code: int, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after

    def response(self, media_type: str) -> Response:
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.status == 405:
            headers["Allow"] = "POST"
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        if media_type == PROTOBUF:
            body = protobuf.status(self.code, str(self))
        else:
            body = orjson.dumps({"code": self.code, "message": str(self)})
        return Response(body, self.status, headers, media_type)


class Answer(NamedTuple):
    """The response to the exporter: what was accepted."""

    rejected: int
    message: str

    def response(self, media_type: str) -> Response:
        if media_type == PROTOBUF:
            return Response(protobuf.response(self.rejected, self.message), media_type=PROTOBUF)
        partial = {"partialSuccess": {"rejectedSpans": str(self.rejected), "errorMessage": self.message}}
        return Response(orjson.dumps(partial if self.rejected else {}), media_type=JSON)


class TracesEndpoint:
    """ASGI middleware: handles traces at their path, and passes everything else to `inner`."""

    def __init__(self, inner: ASGIApp) -> None:
        self.inner = inner
        self._at_once: Counter[UUID | int] = Counter()
        self._turns = Turns(1)
        """Parsing takes CPU time: of two threads, a workspace gets one, and so does a person."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or path.rstrip("/") != PATH:
            return await self.inner(scope, receive, send)
        request = Request(scope, receive)
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            answer = (await self._answer(request, content_type)).response(content_type)
        except Refusal as refusal:
            answer = refusal.response(PROTOBUF if content_type == PROTOBUF else JSON)
        except ClientDisconnect:
            answer = Response(status_code=499)  # the client has disconnected
        await answer(scope, receive, send)

    async def _answer(self, request: Request, media_type: str) -> Answer:
        if request.method != "POST":
            raise Refusal(405, UNIMPLEMENTED, f"{PATH} takes POST.")
        began, sender = time.monotonic(), await _in_database(_sender_of, request)
        if media_type not in (PROTOBUF, JSON):
            raise Refusal(
                415, INVALID_ARGUMENT, f"The Content-Type is {media_type[:60]!r}; expected {PROTOBUF} or {JSON}."
            )
        is_full = self._at_once.total() >= len(sender) * MAX_AT_ONCE  # a request counts for workspace and person
        if is_full or any(self._at_once[holder] >= MAX_EACH for holder in sender):
            raise Refusal(503, UNAVAILABLE, "Too many requests at once. Try again in a moment.", retry_after=1)
        self._at_once.update(sender)
        try:
            body = await _body_of(request)
            encoding = request.headers.get("content-encoding", "identity").strip().lower()
            async with self._turns.of(sender.person), self._turns.of(sender.workspace):
                if time.monotonic() > began + RECHECK_SECONDS:
                    await _in_database(_sender_of, request)
                return await _in_database(_store, sender.workspace, body, encoding, media_type)
        finally:
            self._at_once -= Counter(sender)  # drops entries at 0


async def _in_database(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run it in one of the threads for traces. Raises Refusal if the database is down."""
    run = database_sync_to_async(function, thread_sensitive=False, executor=THREADS)
    try:
        result: T = await run(*args, **kwargs)
    except Exception as error:
        if outage_of(error) is None:
            raise
        away = "Retrace's database isn't responding. Try again in a moment."
        if is_locked(error):
            away = "These spans' traces are being read. Try again in a moment."
        raise Refusal(503, UNAVAILABLE, away, retry_after=5) from None
    return result


class Sender(NamedTuple):
    """Whose token a request has."""

    workspace: UUID
    person: int


def _sender_of(request: Request) -> Sender:
    """The workspace and the person of the request's token. Raises Refusal."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Refusal(401, UNAUTHENTICATED, "Send an API token as `Authorization: Bearer …`.")
    tokens = ApiToken.objects.usable().filter(membership__user__is_active=True, membership__role__gte=Role.RESEARCHER)
    token = tokens.select_related("membership").filter(digest=digest_of(secret.strip())).first()
    if token is None:
        raise Refusal(401, UNAUTHENTICATED, "This token is unknown, revoked, or expired, or isn't a researcher's.")
    note_use(token)
    return Sender(token.membership.workspace_id, token.membership.user_id)


async def _body_of(request: Request) -> bytes:
    """The raw body. Raises Refusal, ClientDisconnect."""
    pieces, size = [], 0
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for piece in request.stream():
                size += len(piece)
                if size > settings.TRACES_MAX_BYTES:
                    raise _too_large()
                pieces.append(piece)
    except TimeoutError:
        raise Refusal(408, INVALID_ARGUMENT, f"The request wasn't over after {READ_SECONDS} s.") from None
    return b"".join(pieces)


def _store(workspace_id: UUID, body: bytes, encoding: str, media_type: str) -> Answer:
    """Parse and store the body. Raises Refusal."""
    if encoding == "gzip":
        body = _unpacked(body)
    elif encoding != "identity":
        raise Refusal(415, INVALID_ARGUMENT, f"The Content-Encoding is {encoding[:60]!r}; expected gzip, or none.")
    try:
        rules = rules_of(workspace_id)
        batch: Batch = read_protobuf(body, rules) if media_type == PROTOBUF else read_json(body, rules)
    except Unreadable as problem:
        raise Refusal(400, INVALID_ARGUMENT, str(problem)) from None
    try:
        store_spans(workspace_id, batch)
    except StorageFull as problem:
        raise Refusal(429, RESOURCE_EXHAUSTED, str(problem), retry_after=60) from None
    return Answer(batch.rejected, batch.message)


def _unpacked(body: bytes) -> bytes:
    """Decompress gzip with one or more members. Raises Refusal."""
    chunks, remaining_bytes = [], settings.TRACES_MAX_BYTES
    for _ in range(MAX_MEMBERS):
        unpacker = zlib.decompressobj(wbits=31)
        try:
            piece = unpacker.decompress(body, remaining_bytes + 1)
        except zlib.error as problem:
            raise Refusal(400, INVALID_ARGUMENT, f"The body isn't gzip: {problem}.") from None
        remaining_bytes -= len(piece)
        if remaining_bytes < 0:
            raise _too_large()
        if not unpacker.eof:
            raise Refusal(400, INVALID_ARGUMENT, "The body ends inside its gzip stream.")
        chunks.append(piece)
        body = unpacker.unused_data
        if not body:
            return b"".join(chunks)
    raise Refusal(400, INVALID_ARGUMENT, f"The body has more than {MAX_MEMBERS} gzip members.")


def _too_large() -> Refusal:
    max_mib = settings.TRACES_MAX_BYTES >> 20
    return Refusal(
        413, INVALID_ARGUMENT, f"The request is larger than the {max_mib} MiB that are accepted. Send smaller batches."
    )
