"""`retrace export VERSION --split … --to …`"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

from retrace.cli.output import Output, counted
from retrace.client import Client
from retrace.errors import NotFound, RetraceError
from retrace.models.datasets import Dataset, Version
from retrace.resources.datasets import Format, Split


def add_to(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("export", parents=[common], help="download a split of a frozen version")
    add_version(parser)
    parser.add_argument("--split", choices=get_args(Split), default="train")
    parser.add_argument("--format", choices=get_args(Format), help="by the name of the file if left out, else jsonl")
    parser.add_argument("--to", type=Path, metavar="FILE", help="<split>.<format> in this folder if left out")
    parser.set_defaults(command=run)


def add_version(parser: argparse.ArgumentParser) -> None:
    """The argument that `named_version` reads."""
    parser.add_argument(
        "version",
        metavar="DATASET[/NUMBER]",
        help="the dataset's name or id, and the version; the newest frozen one if left out",
    )


def run(client: Client, options: argparse.Namespace, output: Output) -> int:
    version = named_version(client, options.version)
    is_parquet = options.to is not None and options.to.suffix == ".parquet"
    format: Format = options.format or ("parquet" if is_parquet else "jsonl")
    target = options.to or Path(f"{options.split}.{format}")
    client.export(version, options.split, to=target, format=format, progress=output.progress)
    file = version.files[format][options.split]
    summary = {
        "file": str(target),
        "version": version.id,
        "rows": file.rows,
        "bytes": file.bytes,
        "sha256": file.sha256,
    }
    output.one(summary, f"{target}: {counted(file.rows, 'row')}, {file.bytes:,} bytes, SHA-256 {file.sha256}")
    return 0


def named_version(client: Client, text: str) -> Version:
    """The version named by `DATASET[/NUMBER]`. Raises RetraceError."""
    name, slash, number = text.rpartition("/")
    if not (slash and number.isdecimal()):
        name, number = text, ""
    dataset = _dataset(client, name)
    if not number and dataset.latest is None:
        raise RetraceError(f"The dataset {dataset.name} has no frozen version yet.")
    return client.versions.read(dataset.id, int(number or dataset.latest or 0))


def _dataset(client: Client, text: str) -> Dataset:
    try:
        return client.datasets.read(str(UUID(text)))
    except (ValueError, NotFound):
        named = [dataset for dataset in client.datasets.list(page_size=1000) if dataset.name == text]
    if len(named) != 1:
        count = "There is no dataset" if not named else f"There are {len(named)} datasets"
        raise RetraceError(f"{count} called {text!r}. Give the id that the address of its page shows.")
    return named[0]
