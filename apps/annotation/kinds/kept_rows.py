"""The rows of trajectories as markup, rendered once for everybody who judges them, and kept in Valkey for an hour.

What is kept is the same for all who see these sides in this order: addresses in it are placeholders, and names, tokens, drafts and
answers stand outside of it. It is named by a digest, keyed with the installation's secret, of the code that renders and of what both
sides say, so that an edit or a new version finds nothing, and nobody who writes a trajectory can choose what another one is shown as.
There are `SLOTS` places of at most `MOST_BYTES`; a digest leads to one of them and takes it from whatever was there, so the size of all is
bounded whatever people open. Without Valkey everything is rendered.
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
MOST_BYTES = 64 * 1024
"""Of one kept piece, compressed: 128 MiB for all. A usual pair takes 2 to 8 KiB."""
KEPT_SECONDS = 3600
_PART = re.compile(r"/([0-9a-f]{32})/([a-z]+)/([0-9]+)")


class Rows(NamedTuple):
    """Rendered rows, and the number of the first in which the sides differ."""

    first: int | None
    markup: Markup


def kept_rows(kind: str, runs: Sequence[Trajectory], part_url: PartUrl, render: Callable[[PartUrl], Rows]) -> Rows:
    """What `render` makes of these trajectories, in this order, with the addresses of `part_url`. kind: what else decides about the markup."""
    digest = digest_of(kind, runs)
    placeholder = digest.hex()[32:]
    rows = _recalled(digest) or _rendered(digest, placeholder, render)
    urls = cache(part_url)
    return rows._replace(
        markup=addressed(rows.markup, _PART, lambda at: urls(at[2], int(at[3])) if at[1] == placeholder else at[0])
    )


def digest_of(kind: str, runs: Sequence[Trajectory]) -> bytes:
    """Names one rendering; 32 bytes. Secret, or text in a trajectory could pass for a placeholder."""
    sides = [(str(run.pk), bytes(run.content_hash).hex()) for run in runs]
    return salted_hmac(__name__, repr((code_version(), kind, sides)), algorithm="sha256").digest()


def _recalled(digest: bytes) -> Rows | None:
    found = recall(_slot(digest)) if _keeps() else None
    if not isinstance(found, tuple) or found[0] != digest:
        return None
    _, first, body = found
    return Rows(first, unpacked(body))


def _rendered(digest: bytes, placeholder: str, render: Callable[[PartUrl], Rows]) -> Rows:
    rows = render(lambda side, index: f"/{placeholder}/{side}/{index}")
    body = packed(rows.markup) if _keeps() else b""
    if 0 < len(body) <= MOST_BYTES:
        remember(_slot(digest), (digest, rows.first, body), seconds=KEPT_SECONDS)
    return rows


def _slot(digest: bytes) -> str:
    return f"rows:{int.from_bytes(digest[:4]) % SLOTS}"


def _keeps() -> bool:
    """Not while somebody works on the templates, which then change within a process."""
    return not settings.DEBUG
