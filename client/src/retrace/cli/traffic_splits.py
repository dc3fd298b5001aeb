"""`retrace traffic-splits list|show|on|off`"""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from retrace.cli.newest import add_limit, newest
from retrace.cli.output import Output, facts
from retrace.client import Client
from retrace.errors import RetraceError
from retrace.models.traffic_splits import TrafficSplit

SHOWN = (
    *("id", "name", "is_on", "environment", "champion", "unit", "arms", "figures"),
    *("experiment", "arms_changed_at", "created_at"),
)


def add_to(commands: Any, common: argparse.ArgumentParser) -> None:
    group = commands.add_parser("traffic-splits", help="gateway model names that are routed to several policies")
    group = group.add_subparsers(required=True, metavar="COMMAND")
    parser = group.add_parser("list", parents=[common], help="the newest traffic splits")
    add_limit(parser)
    parser.set_defaults(command=show_list)
    for name, command, help in (
        ("show", show, "one traffic split, with the figures of its arms"),
        ("on", partial(switch, is_on=True), "have its arms answer again"),
        ("off", partial(switch, is_on=False), "have the champion answer every new session"),
    ):
        parser = group.add_parser(name, parents=[common], help=help)
        parser.add_argument("split", metavar="NAME", help="its name or id")
        parser.set_defaults(command=command)


def show_list(client: Client, options: argparse.Namespace, output: Output) -> int:
    output.table(newest(client.traffic_splits.list, options.limit), ("id", "name", "is_on", "unit", "environment"))
    return 0


def show(client: Client, options: argparse.Namespace, output: Output) -> int:
    split = client.traffic_splits.read(_named(client, options.split).id)
    output.one(split, facts(split, SHOWN))
    return 0


def switch(client: Client, options: argparse.Namespace, output: Output, *, is_on: bool) -> int:
    split = client.traffic_splits.switch(_named(client, options.split).id, is_on=is_on)
    output.one(split, f"{split.name}: {'on' if split.is_on else 'off, the champion answers'}")
    return 0


def _named(client: Client, named: str) -> TrafficSplit:
    for split in client.traffic_splits.list():
        if named in (split.id, split.name):
            return split
    raise RetraceError(f"There is no traffic split called {named!r}.")
