"""A process of its own that reads and prepares a file while this one writes what it has prepared. Both ends of it."""

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
"""Reading takes up to about ten times the longest value of a Parquet file, and less of others."""


def chunks_elsewhere(file: IO[bytes], filename: str, start: int) -> Generator[Chunk, None, None]:
    """As `preparation.chunks`, which it calls in another process. The file is one of the system's, and is read from where it stands.

    Raises what that raises, and Stopped where the process ended before its work.
    """
    with closing(SecondProcess(__name__, keep_open=[file.fileno()])) as process:
        os.lseek(file.fileno(), file.tell(), os.SEEK_SET)  # back to it, from what a buffer has read ahead
        process.send((file.fileno(), filename, start))
        while True:
            answer = process.receive()
            if isinstance(answer, Exception):
                raise answer
            if answer is None:
                return
            yield answer


def most_memory() -> int:
    """Bytes that this process may take, whatever a file unpacks to."""
    return OWN_MEMORY + MEMORY_A_RECORD_BYTE * settings.IMPORT_MAX_RECORD_BYTES


def limit_memory() -> None:
    """Have the system refuse this process more than that."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = most_memory() if hard == resource.RLIM_INFINITY else min(most_memory(), hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def main() -> None:
    """Read the file that standard input names to its end."""
    requests, answers = standard_streams()
    try:
        descriptor, filename, start = pickle.load(requests)
    except EOFError:
        return  # nobody asks
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
                    f"Reading it takes more than {most_memory() >> 20:,} MiB of memory. Send smaller records."
                )
            except Exception as error:  # told over there, where it is known what to do
                end = error
        write(end, answers)
        answers.flush()
    except BrokenPipeError:
        os._exit(0)  # nobody listens: an import was cancelled, or its worker died


if __name__ == "__main__":
    main()
