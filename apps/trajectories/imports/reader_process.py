"""Reads and prepares a file in a separate process while this one writes. Both ends of the connection are in this module."""

from __future__ import annotations

import os
import pickle
import resource
from collections.abc import Generator
from contextlib import closing
from typing import IO

from django.conf import settings

from apps.common.second_process import SecondProcess, standard_streams, write
from apps.ingest.files.source import UnreadableFile
from apps.trajectories.imports.preparation import Chunk, chunks

OWN_MEMORY = 512 << 20
MEMORY_A_RECORD_BYTE = 16
"""Reading takes up to about ten times the longest value of a Parquet file, and less for other formats."""


def chunks_elsewhere(file: IO[bytes], filename: str, start: int) -> Generator[Chunk, None, None]:
    """Like `preparation.chunks`, which it calls in another process. The file must be an OS file, and is read from its current position.

    Raises what `chunks` raises, and Stopped if the process ended early.
    """
    with closing(SecondProcess(__name__, keep_open=[file.fileno()])) as process:
        os.lseek(file.fileno(), file.tell(), os.SEEK_SET)  # undo the buffer's read-ahead
        process.send((file.fileno(), filename, start))
        while True:
            answer = process.receive()
            if isinstance(answer, Exception):
                raise answer
            if answer is None:
                return
            yield answer


def memory_limit() -> int:
    """Memory limit of the process in bytes, whatever a file unpacks to."""
    return OWN_MEMORY + MEMORY_A_RECORD_BYTE * settings.IMPORT_MAX_RECORD_BYTES


def limit_memory() -> None:
    """Set the process's memory limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = memory_limit() if hard == resource.RLIM_INFINITY else min(memory_limit(), hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def main() -> None:
    """Read the file named on standard input to its end."""
    requests, answers = standard_streams()
    try:
        descriptor, filename, start = pickle.load(requests)
    except EOFError:
        return  # no request
    limit_memory()
    end: Exception | None = None
    try:
        with os.fdopen(descriptor, "rb") as file:
            try:
                for chunk in chunks(file, filename, start):
                    write(chunk, answers)
                    answers.flush()
            except BrokenPipeError:
                raise
            except MemoryError:
                end = UnreadableFile(
                    f"Reading it takes more than {memory_limit() >> 20:,} MiB of memory. Send smaller records."
                )
            except Exception as error:  # re-raised in the parent, which knows how to handle it
                end = error
        write(end, answers)
        answers.flush()
    except BrokenPipeError:
        os._exit(0)  # the parent is gone: the import was cancelled, or its worker died


if __name__ == "__main__":
    main()
