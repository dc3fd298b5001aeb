"""Executes flows: `Connection` blocks, `AsyncConnection` runs in an event loop."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from retrace.core.flow import Effect, Flow
from retrace.core.retries import Retries
from retrace.version import VERSION

T = TypeVar("T")
TIMEOUT = httpx.Timeout(60.0, connect=10.0)


class Connection:
    """A connection pool to one server, shared by threads."""

    def __init__(self, url: str, token: str, retries: Retries, timeout: float | httpx.Timeout) -> None:
        self.retries = retries
        self.http = httpx.Client(base_url=url, headers=_headers(token), timeout=timeout)

    def run(self, flow: Flow[T]) -> T:
        """Execute `flow` and return its result."""
        resume: Callable[[Any], Effect] = flow.send
        outcome: Any = None
        try:
            while True:
                effect = resume(outcome)
                try:
                    outcome, resume = effect.perform(self.http), flow.send
                except Exception as error:
                    outcome, resume = error, flow.throw
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            flow.close()


class AsyncConnection:
    """A connection pool to one server, for one event loop."""

    def __init__(self, url: str, token: str, retries: Retries, timeout: float | httpx.Timeout) -> None:
        self.retries = retries
        self.http = httpx.AsyncClient(base_url=url, headers=_headers(token), timeout=timeout)

    async def run(self, flow: Flow[T]) -> T:
        """Execute `flow` and return its result."""
        resume: Callable[[Any], Effect] = flow.send
        outcome: Any = None
        try:
            while True:
                effect = resume(outcome)
                try:
                    outcome, resume = await effect.perform_async(self.http), flow.send
                except Exception as error:
                    outcome, resume = error, flow.throw
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            flow.close()


def server_url(url: str | None) -> str:
    """`url` or RETRACE_URL: the address of the installation, as in a browser. Raises ValueError for anything else."""
    text = (url or os.environ.get("RETRACE_URL", "")).strip().rstrip("/").removesuffix("/api/v1")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        problem = f"{text!r} isn't one" if text else "none is given"
        raise ValueError(
            f"Retrace's URL is needed, such as https://retrace.example.org, but {problem}. Set RETRACE_URL."
        )
    return text


def api_token(token: str | None) -> str:
    """`token` or RETRACE_TOKEN. Raises ValueError if it's missing or can't be sent in a header."""
    text = (token or os.environ.get("RETRACE_TOKEN", "")).strip()
    if not text:
        raise ValueError("An API token is needed. Create one under Settings → API tokens and set RETRACE_TOKEN.")
    if not (text.isascii() and text.isprintable()) or " " in text:
        raise ValueError("The API token holds characters that no token has. Copy it again; it begins with rt_.")
    return text


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "User-Agent": f"retrace-client/{VERSION}", "Accept": "application/json"}
