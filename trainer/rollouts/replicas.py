"""The servers behind a policy: load balancing, and waiting for servers that are down.

A dying server aborts its episodes. That isn't the policy's fault, so they aren't counted, and are replayed on
another replica or once it's back.
"""

import asyncio
import time
from collections.abc import Sequence

import httpx

from contract.configs import ServerPolicy
from contract.endpoint_keys import KeyRefused, key_for
from contract.outgoing.async_transport import async_http_client
from contract.outgoing.networks import AddressRefused
from contract.outgoing.replies import json_of
from trainer.failures import ConfigFailure, ServerDied

CHECK_EVERY_SECONDS = 2.0
CHECK_TIMEOUT_SECONDS = 5.0
"""Timeout of a check whether a server is back."""


class Replica:
    """One server."""

    def __init__(self, config: ServerPolicy, url: str, *, parallel: int) -> None:
        self.url = url
        self.problem = ""
        """Why it's down; empty while it's believed to be up."""
        try:
            key = key_for(config.api_key_variable, url)
        except KeyRefused as refused:
            raise ConfigFailure(
                f"policy.api_key_variable: {refused}",
                advice="Set it where the worker runs, or leave the field empty for a server without a key.",
            ) from None
        try:
            self.client = async_http_client(
                url.rstrip("/") + "/",
                headers={"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})},
                timeout=config.timeout_seconds,
                connections=parallel,
            )
        except AddressRefused as refused:
            raise ConfigFailure(f"policy.url: {refused}") from None

    async def has(self, model: str) -> bool:
        """Whether it's back with this model; a server that doesn't list its models is trusted."""
        try:
            response = await self.client.get("models", timeout=CHECK_TIMEOUT_SECONDS)
        except (httpx.TransportError, AddressRefused):
            return False
        if not response.is_success:
            return not response.is_server_error
        try:
            return model in {card["id"] for card in json_of(response)["data"]}
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
            return True


class Replicas:
    """All servers of a policy. Episodes are distributed round-robin over those that are up."""

    def __init__(self, config: ServerPolicy, *, parallel: int) -> None:
        self._config = config
        self._all = [Replica(config, url, parallel=parallel) for url in (config.url, *config.replicas)]
        self._turn = 0
        self._checking = asyncio.Lock()
        self._checked_at = 0.0
        self.waits = config.published
        """Whether an unreachable server counts as down rather than as a wrong address."""

    def next(self) -> Replica:
        """The server for the next episode."""
        available = self._available() or self._all
        self._turn += 1
        return available[self._turn % len(available)]

    @property
    def away(self) -> str:
        """Why all of them are down; empty while one is up."""
        return "" if self._available() else self._all[0].problem

    async def ready(self) -> None:
        """Return once a server is up. Raises ServerDied after the policy's patience."""
        deadline = time.monotonic() + self._config.patience_seconds
        while True:
            await self._recheck()
            if not self.away:
                return
            if time.monotonic() > deadline:
                raise ServerDied(
                    f"The server died: {self._all[0].url} has not answered for {self._config.patience_seconds:.0f} s: {self.away}.",
                    advice="See the server's log. Once it runs, resume: finished episodes are kept, the others are played again.",
                )
            await asyncio.sleep(CHECK_EVERY_SECONDS)

    async def _recheck(self) -> None:
        """Check whether servers that are down are back, once for all episodes."""
        async with self._checking:
            down = [replica for replica in self._all if replica.problem]
            if not down or time.monotonic() - self._checked_at < CHECK_EVERY_SECONDS:
                return
            for replica in down:
                if await replica.has(self._config.model):
                    replica.problem = ""
            self._checked_at = time.monotonic()

    async def close(self) -> None:
        for replica in self._all:
            await replica.client.aclose()

    def _available(self) -> Sequence[Replica]:
        return [replica for replica in self._all if not replica.problem]
