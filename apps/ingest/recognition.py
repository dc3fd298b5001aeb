"""Finds out what a file is: how its records lie, and which format they are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import IO, NamedTuple

from apps.ingest import formats
from apps.ingest.files.raw_records import RawRow, as_one
from apps.ingest.files.source import Source, open_source
from apps.ingest.formats import Format
from apps.ingest.limits import USUAL, Limits
from apps.ingest.records import Json
from contract import jsontext

SAMPLES = 20
"""Records that may be unreadable before the first one that shows the format."""

SAMPLE_BYTES = 32 << 20


class Recognized(NamedTuple):
    """A file whose format is known, with all of its records ahead."""

    source: Source
    rows: Iterator[RawRow]
    format: Format


def recognize_file(file: IO[bytes], limits: Limits = USUAL) -> Recognized:
    """Look at the first records of a file. Raises UnreadableFile or UnknownFormat."""
    source = open_source(file, most_bytes=limits.unpacked)
    rows = source.rows(limit=limits.record)
    head, samples = _sample(rows)
    if samples and not _is_known(samples[0]) and _is_known(samples[:1]):
        # Messages or events, not records: all of them together are one run.
        file.seek(0)
        source = open_source(file, most_bytes=limits.unpacked)
        rows = as_one(source.rows(limit=limits.record), limits.record)
        head, samples = _sample(rows)
    format, rows = formats.recognize(samples), itertools.chain(head, rows)
    if format.gather:
        rows = format.gather(rows, limits.record)
    return Recognized(source, rows, format)


def _sample(rows: Iterator[RawRow]) -> tuple[list[RawRow], list[Json]]:
    """The first records up to one that some format recognizes, as written and parsed."""
    head: list[RawRow] = []
    samples: list[Json] = []
    size = 0
    for row in itertools.islice(rows, SAMPLES):
        head.append(row)
        size += len(row.body)
        if not row.problem:
            try:
                samples.append(jsontext.loads(row.body))
            except jsontext.UnreadableJSON:
                continue
            if _is_known(samples[-1]):
                return head, samples[-1:]
        if size > SAMPLE_BYTES:
            break
    return head, samples


def _is_known(value: Json) -> bool:
    return any(format.recognizes(value) for format in formats.known())
