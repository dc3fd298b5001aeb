"""Whether this process can serve, as `/healthz` says it: one word for each thing that it stands on, and no details for strangers."""

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
"""What is raised where something is away."""
WORKER_QUEUES = ("default", "remote", "generate", "train")
WORKER_FORGOTTEN_SECONDS = 90


class Health(NamedTuple):
    """What `/healthz` answers. Missing workers only delay what is asked of them, so they do not make it unready."""

    is_ready: bool
    parts: dict[str, str]


def health() -> Health:
    """Look at everything. Takes seconds where something is away."""
    parts = {
        "database": "ok" if _holds(_ask_database) else "away",
        "valkey": "ok" if _holds(_write_to_valkey) else "away",
        "disk": "ok" if disk.has_room() else "full",
    }
    is_ready = set(parts.values()) == {"ok"}
    return Health(is_ready, parts | {"workers": _workers()})


def note_worker(queues: Iterable[str]) -> None:
    """A worker that takes from these worker queues is there."""
    cache.set_many({_key(queue): True for queue in queues}, timeout=WORKER_FORGOTTEN_SECONDS)


def manned_queues() -> set[str] | None:
    """The worker queues that a worker was seen taking from lately; None while Valkey, which knows, is away."""
    with suppress(*TROUBLE):
        seen = cache.get_many(map(_key, WORKER_QUEUES))
        return {queue for queue in WORKER_QUEUES if _key(queue) in seen}
    return None


def _workers() -> str:
    manned = manned_queues()
    if manned is None:
        return "unknown"
    return "ok" if len(manned) == len(WORKER_QUEUES) else "missing"


def _key(queue: str) -> str:
    return f"worker-seen:{queue}"


def _ask_database() -> None:
    pool = connection.pool  # type: ignore[attr-defined]  # of PostgreSQL's backend
    pool.open()
    with pool.connection(timeout=DATABASE_SECONDS) as asked:
        asked.execute("SELECT 1")


def _write_to_valkey() -> None:
    """A write: a Valkey whose disk is full still answers what is only read."""
    cache.set("health", True, timeout=10)


def _holds(check: Callable[[], None]) -> bool:
    with suppress(*TROUBLE):
        check()
        return True
    return False
