"""`retrace runs list|show|launch|wait`"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from retrace.cli.newest import add_limit, newest
from retrace.cli.output import Output, facts
from retrace.client import Client
from retrace.models.runs import Launch, Run

ALGORITHMS = ("sft", "reward_model", "dpo", "kto", "process_reward_model", "grpo", "rloo", "star")
SHOWN = (
    "id",
    "name",
    "algorithm",
    "state",
    "step",
    "total_steps",
    "preset",
    "version",
    "base",
    "result",
    "created_at",
    "started_at",
    "finished_at",
)


def add_to(commands: Any, common: argparse.ArgumentParser) -> None:
    group = commands.add_parser("runs", help="training runs").add_subparsers(required=True, metavar="COMMAND")
    parser = group.add_parser("list", parents=[common], help="the newest training runs")
    add_limit(parser)
    parser.set_defaults(command=show_list)
    parser = group.add_parser("show", parents=[common], help="one training run")
    parser.add_argument("run", metavar="ID")
    parser.set_defaults(command=show)
    parser = group.add_parser("launch", parents=[common], help="launch a training run")
    parser.add_argument("--algorithm", required=True, choices=ALGORITHMS)
    parser.add_argument("--version", metavar="ID", help="a frozen dataset version; none for grpo, rloo and star")
    parser.add_argument("--base", metavar="ID", help="the policy to start from")
    parser.add_argument(
        "--hub-base", metavar="ID", help="instead of --base: a model on the hub, such as Qwen/Qwen3-0.6B"
    )
    parser.add_argument("--preset", choices=("quick", "standard", "thorough"))
    parser.add_argument("--method", choices=("full", "lora", "qlora"))
    parser.add_argument("--name")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings to change, as JSON")
    parser.add_argument("--wait", action="store_true", help="wait until it has ended")
    parser.set_defaults(command=launch)
    parser = group.add_parser("wait", parents=[common], help="wait until a training run has ended")
    parser.add_argument("run", metavar="ID")
    parser.add_argument("--timeout", type=float, metavar="SECONDS")
    parser.set_defaults(command=wait)


def show_list(client: Client, options: argparse.Namespace, output: Output) -> int:
    output.table(newest(client.runs.list, options.limit), ("id", "state", "algorithm", "step", "total_steps", "name"))
    return 0


def show(client: Client, options: argparse.Namespace, output: Output) -> int:
    run = client.runs.read(options.run)
    output.one(run, facts(run, SHOWN) + (f"\n\n{run.problem}" if run.problem else ""))
    return 0


def launch(client: Client, options: argparse.Namespace, output: Output) -> int:
    fields: Launch = {"algorithm": options.algorithm}
    for name in ("version", "base", "hub_base", "preset", "method", "name"):
        if (value := getattr(options, name)) is not None:
            fields[name] = value
    if options.config:
        fields["config"] = _config(options.config)
    run = client.runs.launch(**fields)
    if options.wait:
        return _wait(client, run, None, output)
    output.one(run, run.id)
    return 0


def wait(client: Client, options: argparse.Namespace, output: Output) -> int:
    return _wait(client, client.runs.read(options.run), options.timeout, output)


def _wait(client: Client, run: Run, timeout: float | None, output: Output) -> int:
    run = client.wait(run, timeout=timeout, progress=output.progress, check=False)
    output.one(run, f"{run.id}: {run.problem or 'finished'}")
    return 1 if run.problem else 0


def _config(file: Path) -> dict[str, Any]:
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} isn't JSON: {error}. Give an object with the settings to change.") from None
    if not isinstance(config, dict):
        raise ValueError(f"{file} holds a {type(config).__name__}. Give an object with the settings to change.")
    return config
