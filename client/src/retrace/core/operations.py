"""Declares calls once: in `Client` they return the result, in `AsyncClient` an awaitable.

A resource's method returns a flow, and `operation` runs it on the resource's connection. The overloads of
`__get__` give the types of both.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import update_wrapper
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, Self, TypeVar, overload
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from pydantic import BaseModel

from retrace.core.connection import AsyncConnection, Connection
from retrace.core.flow import Flow
from retrace.core.replies import parsed, text_of
from retrace.core.request import IDEMPOTENCY_KEY, Reply, Request, address
from retrace.core.retries import exchange
from retrace.errors import UnexpectedAnswer

C = TypeVar("C", bound=Connection | AsyncConnection)
P = ParamSpec("P")
T = TypeVar("T")


class Resource(Generic[C]):
    """One kind of object on the server, accessed through `connection`."""

    def __init__(self, connection: C) -> None:
        self._connection = connection

    def _exchange(self, request: Request) -> Flow[Reply]:
        return exchange(request, self._connection.retries)

    def _ask(self, request: Request, answer: type[T]) -> Flow[T]:
        reply = yield from self._exchange(request)
        return parsed(request, reply, answer)

    def _read(self, template: str, *parts: object, answer: type[T], **query: Any) -> Flow[T]:
        return self._ask(Request("GET", address(template, *parts), query), answer)

    def _create(
        self, template: str, *parts: object, answer: type[T], body: object, is_remembered: bool = True
    ) -> Flow[T]:
        """Create an object. `body` is a dict of the caller's keywords. The idempotency key identifies repetitions."""
        assert isinstance(body, dict)
        headers = {IDEMPOTENCY_KEY: str(uuid4())}
        path = address(template, *parts)
        request = Request("POST", path, body=_plain(body), headers=headers, is_remembered=is_remembered)
        return self._ask(request, answer)

    def _text(self, request: Request) -> Flow[str]:
        reply = yield from self._exchange(request)
        return text_of(request, reply)

    def _act(self, template: str, *parts: object, answer: type[T]) -> Flow[T]:
        """Act on an existing object, exactly once."""
        headers = {IDEMPOTENCY_KEY: str(uuid4())}
        return self._ask(Request("POST", address(template, *parts), headers=headers, is_remembered=True), answer)


class operation(Generic[P, T]):
    """A method with a single result: `client.runs.read(id)`, `await client.runs.read(id)`."""

    def __init__(self, flow: Callable[Concatenate[Any, P], Flow[T]]) -> None:
        self.flow = flow
        self.__doc__ = flow.__doc__

    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Connection], owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, resource: Resource[AsyncConnection], owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type) -> Any:
        if resource is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return resource._connection.run(self.flow(resource, *args, **kwargs))

        return update_wrapper(call, self.flow)


class Listing(NamedTuple, Generic[T]):
    """A paginated list: the request for its first page, and the type of its entries."""

    path: str
    entry: type[T]
    query: dict[str, Any]


class listing(Generic[P, T]):
    """A method that lists: `for run in client.runs.list()`, `async for run in client.runs.list()`.

    The next page is requested when the previous one is used up, so stopping early costs nothing.
    """

    def __init__(self, first: Callable[Concatenate[Any, P], Listing[T]]) -> None:
        self.first = first
        self.__doc__ = first.__doc__

    @overload
    def __get__(self, resource: None, owner: type) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Connection], owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, resource: Resource[AsyncConnection], owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type) -> Any:
        if resource is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            first = self.first(resource, *args, **kwargs)
            paginate = _paginate if isinstance(resource._connection, Connection) else _paginate_async
            return paginate(resource, first)

        return update_wrapper(call, self.first)


class _Page(BaseModel, Generic[T]):
    next: str | None
    results: list[T]

    @property
    def cursor(self) -> str | None:
        """Cursor of the next page. The rest of `next` is ignored: behind a proxy it may name another host."""
        return parse_qs(urlsplit(self.next or "").query).get("cursor", [None])[0]


def _page(resource: Resource[Any], of: Listing[T], cursor: str | None) -> Flow[_Page[T]]:
    request = Request("GET", of.path, {**of.query, "cursor": cursor})
    page: _Page[T] = yield from resource._ask(request, _Page[of.entry])  # type: ignore[name-defined]  # a class at run time
    if page.cursor and page.cursor == cursor:  # would loop forever
        raise UnexpectedAnswer(f"The answer to {request} names itself as the next page.", request=str(request))
    return page


def _paginate(resource: Resource[Connection], of: Listing[T]) -> Iterator[T]:
    cursor: str | None = None
    while True:
        page = resource._connection.run(_page(resource, of, cursor))
        yield from page.results
        if not (cursor := page.cursor):
            return


async def _paginate_async(resource: Resource[AsyncConnection], of: Listing[T]) -> AsyncIterator[T]:
    cursor: str | None = None
    while True:
        page = await resource._connection.run(_page(resource, of, cursor))
        for entry in page.results:
            yield entry
        if not (cursor := page.cursor):
            return


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    """The body in JSON types: datetimes as ISO 8601."""
    return {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in body.items()}
