"""`python -m bench.learning.product FOLDER`: GRPO in the running product, on tasks that only an external agent can play.

PostgreSQL, web, a worker, an OpenEnv server of the office, and `examples/openenv_agent.py` are separate processes; FOLDER/product.json has the
configuration. The training run's outputs (report.json, events.jsonl, model) are moved to FOLDER.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypedDict

import django
import httpx

from apps.common.stack import paths, ports, programs, readiness
from apps.common.stack.services import EmbeddedServices
from apps.common.stack.supervisor import stop_together
from contract.lifetime import tied_to_this_process

ROOT = Path(__file__).resolve().parents[2]
CLIENT = str(ROOT / "client" / "src")
CONFIG_FILE = "product.json"
RESULT_FILES = ("events.jsonl", "model", "report.json")
"""The report is last: if it exists, everything does."""
ENVIRONMENT = "office-elsewhere"
QUEUES = {"default": 1, "train": 1}
TASKS, HELD_OUT_TASKS = 1000, 60


class ProductRun(TypedDict):
    """Configuration of the training run."""

    model: str
    """The folder of the initial weights."""
    levels: list[str]
    """Levels of the tasks."""
    seed: int
    """Seed of the tasks."""
    config: dict[str, Any]
    """The training run's config, without the settings about who plays and where."""


def main(folder: Path) -> None:
    config: ProductRun = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="retrace-product-") as var, ExitStack() as parts:
        stack = paths.for_var(Path(var))
        parts.enter_context(EmbeddedServices(stack))
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "apps.settings",
            "RETRACE_VAR": var,
            "DATABASE_URL": stack.database_url,
            "VALKEY_URL": stack.valkey_url,
            "MODEL_ROOTS": str(Path(config["model"]).parent),
        }
        subprocess.run([sys.executable, "manage.py", "migrate", "--no-input", "--verbosity", "0"], cwd=ROOT, check=True)
        url = parts.enter_context(product(stack))
        django.setup()
        run_folder = learn(config, url, parts)
        for name in RESULT_FILES:
            copied = folder / f"{name}.part"
            (shutil.copytree if (run_folder / name).is_dir() else shutil.copy)(run_folder / name, copied)
            copied.rename(folder / name)


@contextmanager
def product(stack: paths.StackPaths) -> Iterator[str]:
    """Web, workers, and scheduler as `make run` starts them; yields the URL."""
    with ports.listen(host="127.0.0.1", port=0, or_next_free=False) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        env = programs.environment(stack)
        started = [
            *programs.web(stack, listener=listener.fileno(), count=1, env=env),
            *(programs.worker(stack, queue=queue, concurrency=count, env=env) for queue, count in QUEUES.items()),
            programs.clock(stack, env=env),
        ]
        try:
            for program in started:
                program.start()
            readiness.wait_for(started, readiness.page_answers(url), readiness.workers_respond(QUEUES))
            yield url
        finally:
            stop_together(started)


def learn(product_run: ProductRun, url: str, parts: ExitStack) -> Path:
    """Run the training; returns the training run's folder. Raises RetraceError if it fails."""
    sys.path.append(CLIENT)
    from retrace import Client

    from apps.accounts.api_tokens import issue_token
    from apps.accounts.models import Membership, Role, User, Workspace
    from apps.policies.registration import register_model
    from apps.training.folders import folder_of

    workspace = Workspace.objects.create(name="bench", slug="bench")
    user = User.objects.create(email="bench@example.org")
    member = Membership.objects.create(user=user, workspace=workspace, role=Role.RESEARCHER)
    token = issue_token(membership=member, name="bench").secret
    base = register_model(workspace=workspace, name="first", location=product_run["model"], by=user)
    store_tasks(workspace, product_run)
    agent = [str(ROOT / "examples" / "openenv_agent.py"), office_server(parts), ENVIRONMENT]
    begin(parts, agent, RETRACE_URL=url, RETRACE_TOKEN=token, PYTHONPATH=CLIENT)
    with Client(url, token) as client:
        config = {
            **product_run["config"],
            "played_by": "runners",
            "tasks": {"environment": ENVIRONMENT, "count": TASKS},
        }
        run = client.runs.launch(algorithm="grpo", base=str(base.pk), config=config)
        client.wait(run)
    return folder_of(run.id).path


def store_tasks(workspace: Any, config: ProductRun) -> None:
    """Store the office's tasks as tasks of an environment that the product doesn't know."""
    from apps.trajectories.models import Task
    from trainer.environments.office import Office

    for split, count in (("train", TASKS), ("held_out", HELD_OUT_TASKS)):
        drawn = Office.tasks(levels=tuple(config["levels"]), split=split, seed=config["seed"])
        Task.objects.bulk_create(
            Task(workspace=workspace, **{**task.to_json(), "environment": ENVIRONMENT}) for task in islice(drawn, count)
        )


def office_server(parts: ExitStack) -> str:
    """Start a process that serves the office; returns its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    begin(parts, ["-m", "trainer.environments.server", "office", "--port", str(port)])
    address = f"http://127.0.0.1:{port}"
    readiness.wait_for((), partial(answers, address))
    return address


def answers(address: str) -> bool:
    try:
        return httpx.get(f"{address}/health").is_success
    except httpx.TransportError:
        return False


def begin(parts: ExitStack, arguments: list[str], **variables: str) -> None:
    """Start a Python process that ends with `parts`."""
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, env={**os.environ, **variables}, preexec_fn=tied_to_this_process()
    )
    parts.callback(process.wait)
    parts.callback(process.terminate)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
