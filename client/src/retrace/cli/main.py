"""Parses the command line, runs one subcommand, and reports errors as one sentence and an exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from retrace.cli import agents, export, imports, push, runs, sessions, traffic_splits, workspaces
from retrace.cli.output import Output, harmless
from retrace.client import Client
from retrace.errors import RetraceError
from retrace.runners import NoOutcome
from retrace.version import VERSION

FAILED, USAGE, INTERRUPTED = 1, 2, 130
STATUSES = "exit status: 0 done, 1 it failed or the server refused it, 2 wrong usage, 130 interrupted"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = _parser().parse_args(arguments)
    output = Output(is_json=options.json)
    try:
        client = Client(options.url, options.token)
    except ValueError as error:
        return _refuse(error, USAGE)
    try:
        with client:
            status: int = options.command(client, options, output)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        output.end_progress()
        return INTERRUPTED
    except ValueError as error:
        output.end_progress()
        return _refuse(error, USAGE)
    except (RetraceError, NoOutcome, OSError) as error:
        output.end_progress()
        return _refuse(error, FAILED)


def entry_point() -> None:
    """Entry point of the installed command."""
    sys.exit(main())


def _refuse(error: Exception, status: int) -> int:
    print(harmless(f"retrace: {error}"), file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="retrace", description="Retrace from a shell.", epilog=STATUSES)
    parser.add_argument("--version", action="version", version=f"retrace-client {VERSION}")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--url", help="the address of the installation (RETRACE_URL)")
    common.add_argument("--token", help="an API token; better in RETRACE_TOKEN, where no other user sees it")
    common.add_argument("--json", action="store_true", help="print JSON")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in (imports, export, push, runs, sessions, traffic_splits, workspaces, agents):
        module.add_to(commands, common)
    return parser
