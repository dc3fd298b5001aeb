"""Converts replies to models, or to exceptions with the server's message."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from http import HTTPStatus
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from retrace.core.request import Reply, Request
from retrace.errors import RequestRefused, UnexpectedAnswer, refusal_class

T = TypeVar("T")


def checked(request: Request, reply: Reply) -> Reply:
    """Return the reply if it isn't an error. Raises RequestRefused or UnexpectedAnswer."""
    if reply.status < 300 or reply.status == HTTPStatus.NOT_MODIFIED:
        return reply
    if reply.status < 400:
        place = reply.headers.get("Location", "another address")
        message = f"The server redirects {request} to {place}. Give the client the URL that it redirects to."
        raise UnexpectedAnswer(message, status=reply.status, request=str(request))
    raise _refusal(request, reply)


def parsed(request: Request, reply: Reply, answer: type[T]) -> T:
    """The reply's body as `answer`. Raises UnexpectedAnswer if it doesn't match."""
    try:
        adapter: TypeAdapter[T] = _adapter(answer)
        # Not pydantic's JSON parser, which refuses the lone surrogates that trajectories may contain.
        return adapter.validate_python(json.loads(reply.content))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _unexpected(request, reply, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (ValueError, RecursionError) as error:
        raise _unexpected(request, reply, f"no JSON: {error}") from error


def text_of(request: Request, reply: Reply) -> str:
    """The reply's body as text. Raises UnexpectedAnswer if it isn't UTF-8."""
    try:
        return reply.content.decode()
    except UnicodeDecodeError as error:
        raise _unexpected(request, reply, f"no text: {error}") from error


def _unexpected(request: Request, reply: Reply, problem: str) -> UnexpectedAnswer:
    message = (
        f"The answer to {request} isn't what this client reads: {problem}. "
        "Check that the URL is Retrace's, and that client and server have about the same version."
    )
    return UnexpectedAnswer(message, status=reply.status, request=str(request))


_adapter: Callable[[Any], TypeAdapter[Any]] = lru_cache(maxsize=256)(TypeAdapter)


def _refusal(request: Request, reply: Reply) -> RequestRefused:
    detail, fields = _words(reply)
    return refusal_class(reply.status)(
        detail, status=reply.status, request=str(request), fields=fields, retry_after=retry_after(reply.headers)
    )


def _words(reply: Reply) -> tuple[str, dict[str, list[str]]]:
    """`detail` and `fields`. A proxy's response has neither."""
    try:
        body = json.loads(reply.content)
        fields = body.get("fields") or {}
        return str(body["detail"]), {str(name): [*map(str, problems)] for name, problems in fields.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        phrase = httpx.codes.get_reason_phrase(reply.status) or "unknown status"
        return f"The server answered {reply.status} ({phrase}) without saying why.", {}


def retry_after(headers: httpx.Headers) -> float | None:
    """`Retry-After` in seconds, from either of its forms; None if it's missing or invalid."""
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
