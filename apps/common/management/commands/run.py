"""Starts Retrace with everything it needs. `make run` calls this."""

import os
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import get_commands
from django.core.management.base import BaseCommand, CommandError

from apps.common.stack.errors import StackError
from apps.common.stack.launcher import RunOptions, run

DEFAULT_PORT = 8000


class Command(BaseCommand):
    help = "Starts database, broker, web and workers, fills the demo workspace, and stops it all on Ctrl-C."
    requires_system_checks: list[str] = []  # they would need the database that is about to start

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default=os.environ.get("HOST", "127.0.0.1"), help="address to listen on")
        parser.add_argument(
            "--port",
            type=int,
            default=os.environ.get("PORT"),
            help=f"port to listen on; without it {DEFAULT_PORT} or the next free one",
        )
        parser.add_argument("--web", type=int, default=2, metavar="N", help="web processes")
        parser.add_argument("--no-demo", action="store_true", help="do not fill the demo workspace")
        parser.add_argument("--with-parent", action="store_true", help="stop when the parent process dies")

    def handle(self, *args: Any, **options: Any) -> None:
        run_options = RunOptions(
            host=options["host"],
            port=DEFAULT_PORT if options["port"] is None else options["port"],
            or_next_free=options["port"] is None,
            web_processes=options["web"],
            seed=not options["no_demo"] and "seed_demo" in get_commands(),
            tied_to_parent=options["with_parent"],
        )
        try:
            run(settings.STACK, run_options)
        except StackError as error:
            raise CommandError(str(error)) from error
