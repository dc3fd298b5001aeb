"""Reads trajectory files in any known format and writes retrace/1 JSON Lines: `python -m apps.ingest FILE…`

Writes to standard output record by record; reports what couldn't be read and what was left out on standard error, with its location. Exits with 1 if
something couldn't be read, and with 2 if a file couldn't be opened or its format is unknown.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from apps.ingest.files.source import UnreadableFile
from apps.ingest.formats import UnknownFormat
from apps.ingest.reading import Reading
from apps.ingest.upload import Upload
from contract import jsontext

REJECTED, REFUSED = 1, 2


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m apps.ingest", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE", type=Path)
    return max(map(_read, parser.parse_args(arguments).files))


def _read(path: Path) -> int:
    status = 0
    try:
        with path.open("rb") as file:
            for record in Upload(file, path.name):
                status = max(status, _write(Reading(record), path, record.row.file, record.row.line))
    except (UnreadableFile, UnknownFormat) as refusal:
        _print_problem(str(path), str(refusal))
        return REFUSED
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        _print_problem(str(path), f"{error.strerror or error}.")
        return REFUSED
    return status


def _write(reading: Reading, path: Path, member: str, line: int) -> int:
    lines = reading.collect(lambda entry: jsontext.dumps(entry.record.to_json()) + b"\n")
    location = ":".join(filter(None, (str(path), member, str(line or ""))))
    sys.stdout.buffer.writelines(lines)
    for warning in reading.warnings:
        _print_problem(location, warning)
    if reading.verdict:
        _print_problem(location, f"An outcome of {reading.verdict.instance} without a trajectory.")
    if reading.refusal:
        _print_problem(location, f"{reading.refusal.reason} Expected: {reading.refusal.expected}")
    return REJECTED if reading.refusal or reading.verdict else 0


def _print_problem(location: str, problem: str) -> None:
    print(f"{location}: {problem}".encode("utf-8", "backslashreplace").decode(), file=sys.stderr)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
