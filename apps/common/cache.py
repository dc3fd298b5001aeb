"""The cache in Valkey, with one client a process."""

from typing import Any, ClassVar

from django.core.cache import cache
from django.core.cache.backends.redis import RedisCache, RedisCacheClient
from redis.exceptions import RedisError


class KeptClient(RedisCacheClient):
    """Django makes a client for every command and, under ASGI, a connection for every request: two milliseconds of each.

    A redis client may be shared between threads, and its pool notices a fork; so one for each address is kept.
    """

    _kept: ClassVar[dict[str, Any]] = {}

    def get_client(self, key: Any = None, *, write: bool = False) -> Any:
        address = self._servers[self._get_connection_pool_index(write)]  # type: ignore[attr-defined]  # not in the stubs
        client = self._kept.get(address)
        if client is None:
            client = self._kept.setdefault(address, super().get_client(key, write=write))
        return client


class ValkeyCache(RedisCache):
    """Django's cache backend, on the kept client."""

    def __init__(self, server: Any, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._class = KeptClient


def recall(key: str) -> Any:
    """What `remember` kept; None where there is nothing, or no Valkey. For what can be made again."""
    try:
        return cache.get(key)
    except RedisError:
        return None


def remember(key: str, value: Any, *, seconds: int) -> None:
    """Keep what can be made again, if Valkey takes it."""
    try:
        cache.set(key, value, seconds)
    except RedisError:
        return
