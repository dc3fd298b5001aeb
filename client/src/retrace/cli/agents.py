"""`retrace serve-agent MODULE:FUNCTION`"""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from typing import Any

from retrace.cli.output import Output, counted
from retrace.client import Client
from retrace.runners import Agent


def add_to(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser(
        "serve-agent", parents=[common], help="play episodes of training runs and of rollouts with an agent of your own"
    )
    parser.add_argument(
        "agent", metavar="MODULE:FUNCTION", help="takes an episode, returns its success, its reward, or a dict of both"
    )
    parser.add_argument("--environment", metavar="NAME", help="only play tasks of this environment")
    parser.add_argument("--run", metavar="ID", help="only play for this training run")
    parser.add_argument("--rollouts", metavar="ID", help="only play for this batch of rollouts")
    parser.add_argument("--parallel", type=int, default=1, metavar="COUNT", help="concurrent episodes (default: 1)")
    parser.add_argument("--runner", metavar="NAME", help="display name (default: host and process)")
    parser.add_argument(
        "--until-idle", type=float, metavar="SECONDS", help="end after this long without an episode (default: never)"
    )
    parser.set_defaults(command=serve)


def serve(client: Client, options: argparse.Namespace, output: Output) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    count = client.serve_agent(
        agent_at(options.agent),
        environment=options.environment,
        run=options.run,
        rollouts=options.rollouts,
        parallel=options.parallel,
        runner=options.runner,
        until_idle=options.until_idle,
    )
    output.one({"episodes": count}, counted(count, "episode"))
    return 0


def agent_at(place: str) -> Agent:
    """Import the function named by `place`. Raises ValueError."""
    module, _, name = place.partition(":")
    if not module or not name:
        raise ValueError(f"{place!r} names no function. Expected MODULE:FUNCTION, such as my_agent:play.")
    sys.path.insert(0, "")  # as `python -m` does
    try:
        agent: Agent = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        raise ValueError(f"{place}: {error}. Run the command where {module} can be imported.") from error
    except AttributeError:
        raise ValueError(f"{module} has no function {name!r}.") from None
    return agent
