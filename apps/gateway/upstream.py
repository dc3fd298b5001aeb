"""The servers behind the gateway: one pool of connections each, their keys, and whether they return token ids."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Self
from uuid import UUID

import httpx
from django.conf import settings

from apps.gateway.models import Session
from apps.gateway.refusals import UpstreamAway, UpstreamBroken, UpstreamSlow
from contract import jsontext
from contract.endpoint_keys import KeyRefused, key_for
from contract.outgoing.async_transport import AsyncClient, asker, async_http_client, has_room, is_idle
from contract.outgoing.networks import AddressRefused
from contract.outgoing.replies import LARGEST_ERROR, error_in, json_of

CONNECTIONS = 1000
CONNECT_SECONDS = 10.0
SESSION, WORKSPACE = "X-Session-Id", "X-Workspace-Id"
"""Headers that tell our own servers the session and its workspace."""
KNOWN_SECONDS = 600.0
"""How long a server's detected capabilities are cached."""
UNKNOWN_SECONDS = 10.0
"""How long a failed detection is cached."""
IDLE_SECONDS = 60.0
"""How long a server's idle connections are kept. httpx only closes them at the next request to the same server, so they would accumulate; weights in
training have a new address at each step."""
FAILURES = 3
AWAY_SECONDS = 15.0
"""Circuit breaker: after this many consecutive failures, servers are considered down for this long."""
END_SECONDS, END_BYTES = 1.0, 4096
"""How long, and for how many bytes, a reply is read beyond its protocol's end, so that its connection can be reused."""
ANTHROPIC = "api.anthropic.com"
NOT_REPEATED = "It may have computed the reply; it wasn't asked again."
CANT_BE_REACHED = "The policy's server can't be reached. Try again later, or tell whoever runs it."


class Destination(NamedTuple):
    """Where the calls of a session go."""

    addresses: list[str]
    key_variable: str
    is_own: bool = False
    """The server is a process of this installation: it returns token ids, and the rules for user-specified addresses don't apply."""
    is_training: bool = False
    """It's a training run's server, whose address changes at each step."""
    workspace_id: UUID | None = None
    """Whose calls they are."""

    @classmethod
    def of(cls, session: Session) -> Self:
        if session.endpoint is None:
            if session.training_address:
                return cls([session.training_address], "", True, True, session.workspace_id)
            return cls([settings.LOCAL_MODELS_URL], "", True, workspace_id=session.workspace_id)
        return cls(session.endpoint.addresses, session.endpoint.key_variable, workspace_id=session.workspace_id)


class Upstreams:
    """All servers that this process has sent calls to."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, str], AsyncClient] = {}
        self._used_at: dict[tuple[str, str], float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._supports_token_ids: dict[tuple[str, str], tuple[bool, float]] = {}
        """By address and key: a server doesn't answer without its key, and other members may have it."""
        self._cannot_render: dict[tuple[str, str], float] = {}
        """By address and key: until when the server isn't asked again."""
        self._failures: dict[tuple[str, ...], tuple[int, float]] = {}
        """By a policy's servers: consecutive times that none was reachable, and the time of the last."""

    def may_try(self, destination: Destination) -> bool:
        """Whether to try servers that were unreachable, which would most likely time out. After a while, a single call may probe them."""
        servers = tuple(destination.addresses)
        count, last = self._failures.get(servers, (0, 0.0))
        if count < FAILURES:
            return True
        if time.monotonic() - last <= AWAY_SECONDS:
            return False
        self._failures[servers] = (count, time.monotonic())  # other calls wait for this probe
        return True

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        self._used_at.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await asyncio.gather(*(client.aclose() for client in clients.values()))

    async def supports_token_ids(self, destination: Destination) -> bool:
        """Whether the server returns token ids when asked to: vLLM does; others may refuse a request that asks."""
        if destination.is_own:
            return True
        client_key = address, _ = _client_key(destination)
        is_supported, expires_at = self._supports_token_ids.get(client_key, (False, 0.0))
        if time.monotonic() < expires_at:
            return is_supported
        try:
            client = self._client(destination, address)
            response = await client.get("models", timeout=httpx.Timeout(CONNECT_SECONDS))
            cards = json_of(response).get("data") if response.is_success else []
            is_supported = any(isinstance(card, dict) and card.get("owned_by") == "vllm" for card in cards or [])
            expires_at = time.monotonic() + (KNOWN_SECONDS if response.is_success else UNKNOWN_SECONDS)
        except (httpx.HTTPError, OSError, ValueError, RecursionError, AttributeError, TypeError):
            is_supported, expires_at = False, time.monotonic() + UNKNOWN_SECONDS
        self._supports_token_ids[client_key] = (is_supported, expires_at)
        return is_supported

    def may_render(self, destination: Destination) -> bool:
        """Whether the server may support rendering as a separate request. Our own servers don't need it: their prompts continue the sampled tokens."""
        if destination.is_own or self._cannot_render.get(_client_key(destination), 0.0) > time.monotonic():
            return False
        return _may_send_key_to_roots(destination)

    def cannot_render(self, destination: Destination, seconds: float = KNOWN_SECONDS) -> None:
        """Don't ask the server to render again for this long."""
        self._cannot_render[_client_key(destination)] = time.monotonic() + seconds

    async def send(
        self,
        destination: Destination,
        session_id: UUID,
        path: str,
        body: dict[str, Any],
        *,
        headers: Mapping[str, str],
        takes_api_key: bool = False,
        seconds: float | None = None,
    ) -> httpx.Response:
        """Open a server's reply; the caller closes it. Raises UpstreamAway.

        path: below `/v1/`, or from the server's root.
        seconds: for the whole reply, if it's less than the deadline for calls.
        takes_api_key: servers of this protocol may expect the key in `x-api-key`.

        A session stays with one of several servers, for its prefix cache. Another one is only tried if no connection was
        established: a request that was sent may have been computed, and billed.
        """
        content, problem = jsontext.dumps(body), ""
        headers = {**headers, "Content-Type": "application/json"}
        if destination.is_own:
            headers |= {SESSION: str(session_id), WORKSPACE: str(destination.workspace_id)}
        for address in _by_turn(destination.addresses, session_id):
            client = self._client(destination, address)
            timeout = httpx.Timeout(seconds or settings.GATEWAY_DEADLINE_SECONDS, connect=CONNECT_SECONDS)
            url = _root(address) + path if path.startswith("/") else path
            request = client.build_request("POST", url, content=content, headers=headers, timeout=timeout)
            if takes_api_key:
                _send_api_key(request)
            try:
                response = await client.send(request, stream=True)
                self._failures.pop(tuple(destination.addresses), None)
                return response
            except AddressRefused as refused:
                raise UpstreamAway(str(refused)) from None
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
                problem = CANT_BE_REACHED
            except httpx.HTTPError as error:
                raise broken(error) from None
        if not destination.is_training:
            count, _ = self._failures.get(tuple(destination.addresses), (0, 0.0))
            self._failures[tuple(destination.addresses)] = (count + 1, time.monotonic())
        raise UpstreamAway(problem)

    def close_ended(self, response: httpx.Response, rest: AsyncIterator[bytes]) -> None:
        """Close a reply in the background, once it has ended for the agent.

        rest: what wasn't read. The server usually ends its response a moment after its protocol's end. If that's read, its connection
        serves the next call, which otherwise needs a new one, with TLS.
        """
        self._in_background(_read_to_end(response, rest))

    def _client(self, destination: Destination, address: str) -> AsyncClient:
        """The client for a request that the current task is about to send."""
        asker.set(destination.workspace_id)
        client_key = (address, destination.key_variable)
        if client_key not in self._clients:
            try:
                key = key_for(destination.key_variable, address)
                if destination.is_own and not destination.is_training:
                    key = settings.LOCAL_MODELS_KEY
                headers = {"Authorization": f"Bearer {key}"} if key else {}
                self._clients[client_key] = async_http_client(
                    address,
                    headers=headers,
                    timeout=settings.GATEWAY_DEADLINE_SECONDS,
                    connections=CONNECTIONS,
                    is_own=destination.is_own,
                )
            except (KeyRefused, AddressRefused) as refused:
                raise UpstreamAway(f"{refused}") from None
        self._used_at[client_key] = time.monotonic()
        self._close_idle_later()
        return self._clients[client_key]

    def _close_idle_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        self._timer, current_time = None, time.monotonic()
        for client_key, client in list(self._clients.items()):
            if self._used_at[client_key] <= current_time - IDLE_SECONDS and is_idle(client):
                del self._clients[client_key], self._used_at[client_key]
                self._in_background(client.aclose())
        supports = self._supports_token_ids.items()
        self._supports_token_ids = {
            client_key: (is_so, until) for client_key, (is_so, until) in supports if until > current_time
        }
        self._cannot_render = {
            client_key: until for client_key, until in self._cannot_render.items() if until > current_time
        }
        if self._clients:
            self._close_idle_later()

    def _in_background(self, closing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _client_key(destination: Destination) -> tuple[str, str]:
    """The key under which a server's detected capabilities are cached: its address, and the API key."""
    return destination.addresses[0], destination.key_variable


async def _read_to_end(response: httpx.Response, rest: AsyncIterator[bytes]) -> None:
    has_room.set(None)  # runs after the call, whose memory this must not count as
    size = 0
    try:
        with suppress(httpx.HTTPError, TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                async for piece in rest:
                    size += len(piece)
                    if size > END_BYTES:
                        break
    finally:
        await response.aclose()


def _root(address: str) -> str:
    return address.rstrip("/").removesuffix("/v1")


def _may_send_key_to_roots(destination: Destination) -> bool:
    """Whether the installation also allows sending the key outside `/v1/`, where tokens are generated."""
    try:
        for address in destination.addresses:
            key_for(destination.key_variable, _root(address))
    except KeyRefused:
        return False
    return True


def _send_api_key(request: httpx.Request) -> None:
    """Send the key in `x-api-key` in addition to the bearer token, since servers read one or the other; Anthropic's own refuses such bearer tokens."""
    if key := request.headers.get("Authorization", "").removeprefix("Bearer "):
        request.headers["x-api-key"] = key
        if request.url.host == ANTHROPIC:
            del request.headers["Authorization"]


def is_error(content: bytes) -> bool:
    """Whether it's an error of the protocol, or one in the form used by vLLM's and other web frameworks."""
    if len(content) > LARGEST_ERROR:
        return False
    try:
        reply = jsontext.loads(content)
    except jsontext.UnreadableJSON:
        return False
    return bool(error_in(content)) or (isinstance(reply, dict) and isinstance(reply.get("error"), dict | str))


def broken(error: httpx.HTTPError) -> UpstreamBroken:
    """The refusal for a request that was sent, and not answered to the end."""
    if isinstance(error, httpx.TimeoutException):
        problem = f"The policy's server took longer than {settings.GATEWAY_DEADLINE_SECONDS:g} s."
        return UpstreamSlow(f"{problem} {NOT_REPEATED}")
    return UpstreamBroken(f"The connection to the policy's server broke ({type(error).__name__}). {NOT_REPEATED}")


def _by_turn(addresses: list[str], session_id: UUID) -> list[str]:
    first = session_id.int % len(addresses)
    return addresses[first:] + addresses[:first]
