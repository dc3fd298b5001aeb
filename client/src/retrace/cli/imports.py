"""`retrace import FILE…`"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from retrace.cli.output import Output, counted
from retrace.client import Client
from retrace.errors import RetraceError
from retrace.models.imports import Import


def add_to(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("import", parents=[common], help="import files of trajectories")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="in any format that Retrace reads")
    parser.add_argument("--policy", metavar="NAME", help="policy of trajectories that don't name one")
    parser.add_argument("--no-wait", action="store_true", help="don't wait until they are read")
    parser.set_defaults(command=run)


def run(client: Client, options: argparse.Namespace, output: Output) -> int:
    missing = [str(file) for file in options.files if not file.is_file()]
    if missing:
        raise RetraceError(f"There is no file {', '.join(missing)}. Nothing was sent.")
    failed = False
    for file in options.files:
        batch = client.import_(file, policy=options.policy, progress=output.progress)
        if not options.no_wait:
            batch = client.wait(batch, progress=output.progress, check=False)
        output.one(batch, f"{file}: {_summary(batch)}")
        failed |= bool(batch.problem)
    return 1 if failed else 0


def _summary(batch: Import) -> str:
    if batch.problem:
        return batch.problem
    if not batch.is_over:
        return f"sent as import {batch.id}, {batch.state}"
    parts = [f"{counted(batch.trajectories, 'trajectory', 'trajectories')} of {counted(batch.tasks or 0, 'task')}"]
    parts += [counted(batch.duplicates, "duplicate")] if batch.duplicates else []
    parts += [f"{batch.rejected:,} rejected, see {batch.rejected_rows}"] if batch.rejected else []
    parts += [f"{counted(batch.warning_count, 'warning')}: {batch.warnings[0]}"] if batch.warnings else []
    return "; ".join(parts)
