"""The servers behind the gateway: one pool of connections each, their keys, and whether they return token ids."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from uuid import UUID

import httpx
from django.conf import settings

from apps.gateway.refusals import UpstreamAway, UpstreamBroken, UpstreamSlow
from apps.policies.models import Endpoint
from contract import jsontext
from contract.endpoint_keys import KeyRefused, key_for
from contract.outgoing.networks import AddressRefused
from contract.outgoing.transport import AsyncClient, async_http_client

CONNECTIONS = 1000
CONNECT_SECONDS = 10.0
KNOWN_SECONDS = 600.0
"""For how long what a server can do isn't asked again."""
UNKNOWN_SECONDS = 10.0
"""The same of a server that didn't say."""


class Upstreams:
    """All servers that this process has passed a call to."""

    def __init__(self) -> None:
        self._clients: dict[tuple[str, str], AsyncClient] = {}
        self._speaks_ids: dict[str, tuple[bool, float]] = {}

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        await asyncio.gather(*(client.aclose() for client in clients.values()))

    async def speaks_ids(self, endpoint: Endpoint) -> bool:
        """Whether the server returns token ids when asked to: vLLM does; others may refuse a request that asks."""
        known, until = self._speaks_ids.get(endpoint.base_url, (False, 0.0))
        if time.monotonic() < until:
            return known
        try:
            response = await self._client(endpoint.base_url, endpoint.key_variable).get(
                "models", timeout=httpx.Timeout(CONNECT_SECONDS)
            )
            cards = jsontext.loads(response.content).get("data") if response.is_success else []
            speaks = any(isinstance(card, dict) and card.get("owned_by") == "vllm" for card in cards or [])
            until = time.monotonic() + KNOWN_SECONDS
        except (httpx.HTTPError, OSError, jsontext.UnreadableJSON, AttributeError, TypeError):
            speaks, until = False, time.monotonic() + UNKNOWN_SECONDS
        self._speaks_ids[endpoint.base_url] = (speaks, until)
        return speaks

    async def send(self, endpoint: Endpoint, session_id: UUID, path: str, body: dict[str, Any]) -> httpx.Response:
        """The beginning of a server's reply; whoever reads it closes it. Raises UpstreamAway.

        A session stays with one of several servers, which has its prefixes cached. Another one is tried only where no connection
        came about: what was sent may have been computed, and billed.
        """
        content, problem = jsontext.dumps(body), ""
        for address in _by_turn(endpoint.addresses, session_id):
            client = self._client(address, endpoint.key_variable)
            timeout = httpx.Timeout(settings.GATEWAY_DEADLINE_SECONDS, connect=CONNECT_SECONDS)
            request = client.build_request(
                "POST", path, content=content, headers={"Content-Type": "application/json"}, timeout=timeout
            )
            try:
                return await client.send(request, stream=True)
            except AddressRefused as refused:
                raise UpstreamAway(str(refused)) from None
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
                problem = "The policy's server can't be reached. Try again later, or tell whoever runs it."
            except httpx.TimeoutException:
                raise slow() from None
            except httpx.HTTPError as error:
                raise broken(error) from None
        raise UpstreamAway(problem)

    def _client(self, address: str, key_variable: str) -> AsyncClient:
        place = (address, key_variable)
        if place not in self._clients:
            try:
                key = key_for(key_variable, address)
                headers = {"Authorization": f"Bearer {key}"} if key else {}
                self._clients[place] = async_http_client(
                    address, headers=headers, timeout=settings.GATEWAY_DEADLINE_SECONDS, connections=CONNECTIONS
                )
            except (KeyRefused, AddressRefused) as refused:
                raise UpstreamAway(f"{refused}") from None
        return self._clients[place]


def slow() -> UpstreamSlow:
    return UpstreamSlow(
        f"The policy's server took longer than {settings.GATEWAY_DEADLINE_SECONDS:g} s. It may have computed the reply; it wasn't asked again."
    )


def broken(error: Exception) -> UpstreamBroken:
    return UpstreamBroken(
        f"The connection to the policy's server broke ({type(error).__name__}). It may have computed the reply; it wasn't asked again."
    )


def _by_turn(addresses: list[str], session_id: UUID) -> list[str]:
    first = session_id.int % len(addresses)
    return addresses[first:] + addresses[:first]
