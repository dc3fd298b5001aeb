"""Export: throughput of a frozen version over HTTP compared with reading the file from disk, and the server's memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import httpx
import psutil
from django.core.files.storage import default_storage

from apps.accounts.api_tokens import issue_token
from apps.accounts.models import Membership
from apps.datasets.models import Version
from bench.freezing import fill, frozen
from bench.harness import Figure, Serving, Size, elapsed, serving, watch_memory

MB_A_SECOND = 100
MIN_BYTES = 500_000_000
"""Downloads are repeated up to this total, to make the overhead of a request negligible."""


def download(client: httpx.Client, path: str, *, encoding: str) -> tuple[int, str]:
    """Bytes transferred, and the SHA-256 of the content."""
    digest = hashlib.sha256()
    with client.stream("GET", path, headers={"Accept-Encoding": encoding}) as response:
        response.raise_for_status()
        for piece in response.iter_bytes():
            digest.update(piece)
        return response.num_bytes_downloaded, digest.hexdigest()


def drain(client: httpx.Client, path: str, times: int) -> None:
    """Download the file several times, uncompressed, discarding the content."""
    for _ in range(times):
        with client.stream("GET", path, headers={"Accept-Encoding": "identity"}) as response:
            response.raise_for_status()
            for _piece in response.iter_raw():
                pass


def read_file(name: str, times: int) -> None:
    """Read the stored file in blocks of 1 MB."""
    for _ in range(times):
        with default_storage.open(name, "rb") as file:
            while file.read(1024 * 1024):
                pass


def measure(size: Size) -> Iterator[Figure]:
    """Stream the training split of a version with up to 10,000 rows."""
    member, queue = fill(min(size.items, 10_000), size)
    version = frozen(member, queue)
    with serving(processes=1) as server:
        yield from _measured(version, member, server)


def _measured(version: Version, member: Membership, server: Serving) -> Iterator[Figure]:
    entry = version.files["jsonl"]["train"]
    path = f"/api/v1/datasets/{version.dataset_id}/versions/{version.number}/rows"
    times = max(1, -(-MIN_BYTES // entry["bytes"]))
    megabytes = entry["bytes"] * times / 1e6
    info = {"file_mb": round(entry["bytes"] / 1e6), "times": times}
    secret = issue_token(membership=member, name="bench").secret
    with httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {secret}"}, timeout=120) as client:
        _, sha256 = download(client, path, encoding="identity")
        if sha256 != entry["sha256"]:
            raise RuntimeError("What came over HTTP is not the file that was frozen.")
        with elapsed() as bare:
            read_file(entry["name"], times)
        web = psutil.Process(server.pids[0])
        with watch_memory(web.pid) as memory, elapsed() as timer:
            drain(client, path, times)
        with elapsed() as zipped:
            carried, _ = download(client, path, encoding="gzip")
    yield Figure(
        name="exporting", value=megabytes / timer.seconds, unit="MB/s", limit=MB_A_SECOND, better="higher", with_=info
    )
    yield Figure(name="exporting: reading the file alone", value=megabytes / bare.seconds, unit="MB/s", with_=info)
    yield Figure(
        name="exporting: compressed by gzip",
        value=entry["bytes"] / 1e6 / zipped.seconds,
        unit="MB/s of rows",
        with_={**info, "carried_mb": round(carried / 1e6, 1)},
    )
    yield Figure(name="exporting: memory of the web process", value=memory.growth, unit="MB", limit=50, with_=info)
