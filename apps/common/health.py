"""Readiness for `/healthz`: one word per dependency, without details for strangers."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from django.core.cache import cache
from django.db import connection
from psycopg import Error as DatabaseError
from redis.exceptions import RedisError

from apps.common import disk

DATABASE_SECONDS = 3.0
"""How long to wait for a connection; pages wait longer."""
TROUBLE = (DatabaseError, RedisError, OSError)
"""Exceptions raised when a service is down."""
WORKER_QUEUES = ("default", "remote", "generate", "train")
WORKER_FORGOTTEN_SECONDS = 90


class Health(NamedTuple):
    """The result of `/healthz`. Missing workers only delay work, so they don't make it unready."""

    is_ready: bool
    parts: dict[str, str]


def health() -> Health:
    """Run all checks. Takes seconds if a service is down."""
    parts = {
        "database": "ok" if _passes(_ask_database) else "away",
        "valkey": "ok" if _passes(_write_to_valkey) else "away",
        "disk": "ok" if disk.has_room() else "full",
    }
    is_ready = set(parts.values()) == {"ok"}
    return Health(is_ready, parts | {"workers": _workers()})


def note_worker(queues: Iterable[str]) -> None:
    """Record that a worker consuming these worker queues is alive."""
    cache.set_many({_key(queue): True for queue in queues}, timeout=WORKER_FORGOTTEN_SECONDS)


def served_queues() -> set[str] | None:
    """Worker queues with a recently seen consumer; None while Valkey is down."""
    with suppress(*TROUBLE):
        reports = cache.get_many(map(_key, WORKER_QUEUES))
        return {queue for queue in WORKER_QUEUES if _key(queue) in reports}
    return None


def _workers() -> str:
    served = served_queues()
    if served is None:
        return "unknown"
    return "ok" if len(served) == len(WORKER_QUEUES) else "missing"


def _key(queue: str) -> str:
    return f"worker-seen:{queue}"


def _ask_database() -> None:
    pool = connection.pool  # type: ignore[attr-defined]  # of PostgreSQL's backend
    pool.open()
    with pool.connection(timeout=DATABASE_SECONDS) as database:
        database.execute("SELECT 1")


def _write_to_valkey() -> None:
    """Check with a write, since a Valkey with a full disk still serves reads."""
    cache.set("health", True, timeout=10)


def _passes(check: Callable[[], None]) -> bool:
    with suppress(*TROUBLE):
        check()
        return True
    return False
