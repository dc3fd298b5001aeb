"""Caches the rendered steps of trajectories in Valkey for an hour, shared by everybody who judges them.

The cached markup is the same for everyone who sees these sides in this order: URLs are placeholders, and names, tokens, drafts, and
answers aren't part of it. The key is a digest, keyed with the installation's secret, of the rendering code and both sides' content. An edit or a
new release therefore misses the cache, and authors of trajectories can't forge the rendering of others.
There are `SLOTS` slots of at most `MAX_BYTES`; a digest maps to one of them and overwrites its content, so the total size is
bounded. Without Valkey everything is rendered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from django.conf import settings
from django.utils.crypto import salted_hmac

from apps.annotation.kinds.kind import PartUrl
from apps.common.cache import recall, remember
from apps.common.code_version import code_version
from apps.common.markup import Markup, addressed, packed, unpacked
from apps.trajectories.models import Trajectory

SLOTS = 2048
MAX_BYTES = 64 * 1024
"""Compressed size limit of an entry: 128 MiB for all slots. A typical pair takes 2 to 8 KiB."""
KEPT_SECONDS = 3600
_PART = re.compile(r"/([0-9a-f]{32})/([a-z]+)/([0-9]+)")


class Rows(NamedTuple):
    """Rendered rows, and the index of the first in which the sides differ."""

    first: int | None
    markup: Markup


def kept_rows(
    kind: str, trajectories: Sequence[Trajectory], part_url: PartUrl, render: Callable[[PartUrl], Rows]
) -> Rows:
    """The result of `render` for these trajectories in this order, with URLs from `part_url`. kind: whatever else affects the markup."""
    digest = digest_of(kind, trajectories)
    placeholder = digest.hex()[32:]
    rows = _recalled(digest) or _rendered(digest, placeholder, render)
    urls = cache(part_url)
    return rows._replace(
        markup=addressed(rows.markup, _PART, lambda at: urls(at[2], int(at[3])) if at[1] == placeholder else at[0])
    )


def digest_of(kind: str, trajectories: Sequence[Trajectory]) -> bytes:
    """Identifies one rendering; 32 bytes. Secret, since text in a trajectory could otherwise pass for a placeholder."""
    sides = [(str(trajectory.pk), bytes(trajectory.content_hash).hex()) for trajectory in trajectories]
    return salted_hmac(__name__, repr((code_version(), kind, sides)), algorithm="sha256").digest()


def _recalled(digest: bytes) -> Rows | None:
    cached = recall(_slot(digest)) if _keeps() else None
    if not isinstance(cached, tuple) or cached[0] != digest:
        return None
    _, first, body = cached
    return Rows(first, unpacked(body))


def _rendered(digest: bytes, placeholder: str, render: Callable[[PartUrl], Rows]) -> Rows:
    rows = render(lambda side, index: f"/{placeholder}/{side}/{index}")
    body = packed(rows.markup) if _keeps() else b""
    if 0 < len(body) <= MAX_BYTES:
        remember(_slot(digest), (digest, rows.first, body), seconds=KEPT_SECONDS)
    return rows


def _slot(digest: bytes) -> str:
    return f"rows:{int.from_bytes(digest[:4]) % SLOTS}"


def _keeps() -> bool:
    """False during development, when templates change within a process."""
    return not settings.DEBUG
