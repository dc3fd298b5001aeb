"""`retrace sessions list|show|trace|finish`"""

from __future__ import annotations

import argparse
import json
from typing import Any, get_args

from retrace.cli.newest import add_limit, newest
from retrace.cli.output import Output, facts
from retrace.client import Client
from retrace.models.sessions import Finish
from retrace.sessions import SUCCESS, Outcome

SHOWN = (
    *("id", "state", "policy_name", "task", "group", "attempt", "agent", "metadata", "calls"),
    *("success", "reward", "rewards", "trajectory", "problem", "created_at", "ended_at", "expires_at"),
)


def add_to(commands: Any, common: argparse.ArgumentParser) -> None:
    group = commands.add_parser("sessions", help="sessions of external agents")
    group = group.add_subparsers(required=True, metavar="COMMAND")
    parser = group.add_parser("list", parents=[common], help="the newest sessions")
    add_limit(parser)
    parser.set_defaults(command=show_list)
    for name, command, help in (
        ("show", show, "one session"),
        (
            "trace",
            trace,
            "what a session has come to so far, in Retrace's own import format; with --json, its events too",
        ),
        ("finish", finish, "finish a session with what came of it"),
    ):
        parser = group.add_parser(name, parents=[common], help=help)
        parser.add_argument("session", metavar="ID")
        parser.set_defaults(command=command)
    parser.add_argument("--outcome", choices=get_args(Outcome), default="none", help="none: it isn't known")
    parser.add_argument("--reward", type=float, help="default: the sum of the session's recorded rewards")


def show_list(client: Client, options: argparse.Namespace, output: Output) -> int:
    output.table(
        newest(client.sessions.list, options.limit), ("id", "state", "policy_name", "calls", "reward", "agent")
    )
    return 0


def show(client: Client, options: argparse.Namespace, output: Output) -> int:
    session = client.sessions.read(options.session)
    output.one(session, facts(session, SHOWN))
    return 0


def trace(client: Client, options: argparse.Namespace, output: Output) -> int:
    trace = client.sessions.trace(options.session)
    output.one(trace, json.dumps(trace.trajectory, ensure_ascii=False))
    return 0


def finish(client: Client, options: argparse.Namespace, output: Output) -> int:
    outcome: Finish = {"success": SUCCESS[options.outcome]}
    if options.reward is not None:
        outcome["reward"] = options.reward
    session = client.sessions.finish(options.session, **outcome)
    output.one(session, f"{session.id}: {session.state}")
    return 0
