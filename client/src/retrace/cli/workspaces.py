"""`retrace workspace export --to FILE` and `retrace workspace import FILE`"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from retrace.cli.output import Output, counted
from retrace.client import Client


def add_to(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("workspace", help="export a whole workspace, or import one")
    actions = parser.add_subparsers(title="actions", required=True, metavar="ACTION")
    export = actions.add_parser("export", parents=[common], help="download everything as one archive")
    export.add_argument("--to", type=Path, metavar="FILE", default=Path("workspace.zip"))
    export.add_argument("--include-weights", action="store_true", help="with the models of training runs")
    export.set_defaults(command=run_export)
    importing = actions.add_parser("import", parents=[common], help="import an archive into an empty workspace")
    importing.add_argument("archive", type=Path, metavar="FILE")
    importing.set_defaults(command=run_import)


def run_export(client: Client, options: argparse.Namespace, output: Output) -> int:
    export = client.export_workspace(to=options.to, include_weights=options.include_weights, progress=output.progress)
    summary = {"file": str(options.to), "export": export.id, "bytes": export.size, "sha256": export.sha256}
    output.one(summary, f"{options.to}: {export.size:,} bytes, SHA-256 {export.sha256}")
    return 0


def run_import(client: Client, options: argparse.Namespace, output: Output) -> int:
    job = client.import_workspace(options.archive, progress=output.progress)
    job = client.wait(job, progress=output.progress)
    rows = sum(job.counts.values())
    people = [person.model_dump() for person in job.people]
    invite = f"; {counted(len(people), 'person', 'people')} to invite" if people else ""
    output.one(
        {"import": job.id, "counts": job.counts, "people": people}, f"{options.archive}: {counted(rows, 'row')}{invite}"
    )
    return 0
