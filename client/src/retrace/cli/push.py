"""`retrace push VERSION --to REPOSITORY`"""

from __future__ import annotations

import argparse
from typing import Any

from retrace.cli.export import add_version, named_version
from retrace.cli.output import Output
from retrace.client import Client


def add_to(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("push", parents=[common], help="push a frozen version to a hub of datasets")
    add_version(parser)
    parser.add_argument("--to", required=True, metavar="OWNER/NAME", help="the repository; created if it doesn't exist")
    parser.add_argument("--public", action="store_true", help="create a public repository; private if left out")
    parser.set_defaults(command=run)


def run(client: Client, options: argparse.Namespace, output: Output) -> int:
    version = named_version(client, options.version)
    pushed = client.push(version, options.to, private=not options.public, progress=output.progress)
    output.one(pushed._asdict(), f"{pushed.url} as {pushed.tag}")
    return 0
