"""Flows: the number of our source files that an upload, a preference, and an online training run pass through.

The real stack runs, with each process recording the files whose functions are called (`bench/trace`). Every flow runs once before it's
counted, so that first-time work isn't counted. Settings and middleware aren't counted either, Django's and ours around it
(`apps/asgi.py`), nor is the worker's main process, which beside its pool only sends heartbeats.

    python -m bench small flows
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
from django.conf import settings
from django.test import Client
from django.utils.module_loading import import_string

from apps.accounts.api_tokens import issue_token
from apps.accounts.models import Membership, Role, User, Workspace
from apps.annotation.kinds.pair_selection import Pair
from apps.annotation.models import Queue
from apps.annotation.queues.queue_lifecycle import create_queue_of_pairs
from apps.common.stack import paths, ports, programs, readiness
from apps.common.stack.supervisor import stop_together
from apps.datasets.models import Version
from apps.training.models import Run
from apps.trajectories.models import ImportBatch, Trajectory
from bench.harness import Figure, Size

ROOT = Path(__file__).resolve().parent.parent
LIMITS = {"upload": 20, "preference": 35, "online": 30}
PATIENCE_SECONDS = 300.0
PAIRS = 24
WORKERS = ("default", "remote", "generate", "train")
AROUND_DJANGO = (
    "apps.common.static_files.StaticFiles",
    "apps.common.uploads.LimitUploads",
    "apps.common.request_threads.OneTripHandler",
)


def measure(_: Size) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory(prefix="flows-") as name, _stack(Path(name)) as stack:
        flows = Flows(stack.url, Path(name))
        flows.prepare()
        for flow, follow in (("upload", flows.upload), ("preference", flows.preference), ("online", flows.online)):
            follow()
            files = _counted(Path(name), flow, follow, besides=stack.workers)
            print("\n".join(f"  {flow}: {file}" for file in files), flush=True)
            yield Figure(name=f"flows.{flow}", value=len(files), unit="files", limit=LIMITS[flow])


def _counted(folder: Path, flow: str, follow: Callable[[], None], *, besides: Collection[int]) -> list[str]:
    """`besides`: processes that don't count."""
    phase = folder / "phase"
    phase.write_text(flow)
    time.sleep(0.3)  # every process polls the phase
    follow()
    time.sleep(0.3)
    phase.write_text("")
    aside = {_file_of(path) for path in (*settings.MIDDLEWARE, *AROUND_DJANGO)} | {"apps/settings.py"}
    notes = [file for file in folder.glob(f"{flow}.*") if int(file.suffix[1:]) not in besides]
    lines = {line for file in notes for line in file.read_text().splitlines()}
    return sorted(lines - aside)


def _file_of(middleware: str) -> str:
    module = sys.modules[import_string(middleware).__module__]
    return str(Path(module.__file__ or "").resolve()).removeprefix(f"{ROOT}{os.sep}")


class Stack(NamedTuple):
    """The running stack."""

    url: str
    workers: list[int]
    """The process ids of the worker parents; tasks run in forked children."""


@contextmanager
def _stack(folder: Path) -> Iterator[Stack]:
    """One web process and the workers, on this benchmark's database; no scheduler, whose periodic tasks belong to no flow."""
    stack = paths.for_var(Path(os.environ["RETRACE_VAR"]))
    path = os.pathsep.join(filter(None, [str(ROOT / "bench" / "trace"), os.environ.get("PYTHONPATH", "")]))
    env = programs.environment(stack, PYTHONPATH=path, FLOW_TRACE=str(folder))
    with ports.listen(host="127.0.0.1", port=0, or_next_free=False) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        crew = [programs.worker(stack, queue=queue, concurrency=1, env=env) for queue in WORKERS]
        parts = [*programs.web(stack, listener=listener.fileno(), count=1, env=env), *crew]
        try:
            for part in parts:
                part.start()
            answer = readiness.workers_respond(dict.fromkeys(WORKERS, 1))
            readiness.wait_for(parts, readiness.page_answers(url), answer)
            yield Stack(url, [part.process.pid for part in crew if part.process])
        finally:
            stop_together(parts)


class Flows:
    """The three flows, each from a request to its result. Completion is polled in the database."""

    def __init__(self, url: str, folder: Path) -> None:
        self.folder = folder
        self.workspace = Workspace.objects.create(name="flows", slug="flows")
        self.researcher = self._member(Role.RESEARCHER)
        self.annotator = self._member(Role.ANNOTATOR)
        secret = issue_token(membership=self.researcher, name="flows").secret
        self.rest = httpx.Client(base_url=f"{url}/api/v1/", headers={"Authorization": f"Bearer {secret}"}, timeout=60)
        self.desk = _browser(url, self.annotator)
        self.uploads = 0
        self.base = ""

    def prepare(self) -> None:
        """Create trajectories to compare and a model to start from."""
        self.upload()
        queue = self._queue(PAIRS)
        for _ in range(PAIRS):
            self._judge(queue)
        version = self._freeze(queue)
        self.base = str(
            self._train(
                algorithm="sft", version=version, config={"optimizer": {"max_steps": 60, "batch_size": 4}}
            ).result_id
        )

    def upload(self) -> None:
        """Upload a file of trajectories, until they are stored."""
        self.uploads += 1
        lines = [line for script in ("expert", "hasty") for line in self._played(script)]
        answer = self._checked_json(
            self.rest.post("imports", content="\n".join(lines), params={"filename": "played.jsonl"})
        )
        batch = ImportBatch.objects.get(pk=answer["id"])
        _until(lambda: ImportBatch.objects.get(pk=batch.pk).finished_at is not None, "the import")

    def preference(self) -> None:
        """Record preferences, freeze them, and train on them."""
        queue = self._queue(PAIRS)
        for _ in range(PAIRS):
            self._judge(queue)
        version = self._freeze(queue)
        self._train(
            algorithm="dpo", version=version, base=self.base, config={"optimizer": {"max_steps": 2, "batch_size": 4}}
        )

    def online(self) -> None:
        """Run GRPO, until its curve can be read."""
        config = {
            "optimizer": {"max_steps": 2, "batch_size": 4, "gradient_accumulation": 1},
            "tasks": {"environment": "office", "count": 16},
            "samples": 4,
            "budget": {"steps": 2},
        }
        run = self._train(algorithm="grpo", base=self.base, config=config)
        if not self.rest.get(f"runs/{run.pk}/metrics").raise_for_status().json():
            raise RuntimeError("The run measured nothing.")

    def _member(self, role: Role) -> Membership:
        user = User.objects.create_user(email=f"{role.name.lower()}@flows.example", name=role.label)
        return Membership.objects.create(user=user, workspace=self.workspace, role=role)

    def _played(self, script: str) -> list[str]:
        """Trajectories of a scripted policy from the trainer's command line; they differ per upload, so that none is a duplicate."""
        folder = self.folder / f"{script}-{self.uploads}"
        folder.mkdir()
        config = {
            "kind": "rollout",
            "policy": {"engine": "scripted", "script": script},
            "tasks": {"environment": "office", "split": "train", "count": PAIRS, "seed": self.uploads},
        }
        (folder / "run.json").write_text(json.dumps(config))
        quiet = {name: value for name, value in os.environ.items() if name != "FLOW_TRACE"}
        command = [sys.executable, "-m", "trainer", str(folder / "run.json")]
        subprocess.run(command, cwd=ROOT, env=quiet, check=True, stdout=subprocess.DEVNULL)
        return (folder / "trajectories.jsonl").read_text().splitlines()

    def _queue(self, pairs: int) -> Queue:
        """An open queue of the newest pairs; creating it isn't part of a flow."""
        newest = Trajectory.objects.filter(workspace=self.workspace).order_by("task", "-pk").values_list("task", "pk")
        by_task: dict[Any, list[Any]] = {}
        for task, trajectory in newest:
            by_task.setdefault(task, []).append(trajectory)
        chosen = [Pair(task, ids[0], ids[1]) for task, ids in by_task.items() if len(ids) > 1][:pairs]
        return create_queue_of_pairs(
            pairs=chosen, workspace=self.workspace, created_by=self.researcher.user, name="flows"
        )

    def _judge(self, queue: Queue) -> None:
        item = self._checked_json(self.desk.post(f"desk/{queue.pk}/next/"))["item"]
        self._checked_json(
            self.desk.post(f"{item.strip('/')}/judge/", content=urlencode({"answer": "2", "seconds": "3"}))
        )

    def _freeze(self, queue: Queue) -> str:
        name = f"flows {time.monotonic_ns()}"
        dataset = self._checked_json(self.rest.post("datasets", json={"name": name}))
        recipe = {"row_type": "preference", "queues": [str(queue.pk)]}
        answer = self._checked_json(self.rest.post(f"datasets/{dataset['id']}/versions", json=recipe))
        _until(lambda: not Version.objects.get(pk=answer["id"]).is_active, "freezing")
        return str(answer["id"])

    def _train(self, **launch: Any) -> Run:
        answer = self._checked_json(self.rest.post("runs", json={"preset": "quick", **launch}))
        _until(lambda: not Run.objects.get(pk=answer["id"]).is_active, "the training run")
        run = Run.objects.get(pk=answer["id"])
        if run.state != Run.State.FINISHED:
            raise RuntimeError(f"The training run ended as {run.state}: {run.failure}")
        return run

    def _checked_json(self, response: httpx.Response) -> Any:
        if not response.is_success:
            raise RuntimeError(
                f"{response.request.method} {response.request.url} answered {response.status_code}: {response.text[:500]}"
            )
        return response.json()


def _browser(url: str, member: Membership) -> httpx.Client:
    client = Client()
    client.force_login(member.user)
    token = "b" * 32
    cookies = {settings.SESSION_COOKIE_NAME: client.cookies[settings.SESSION_COOKIE_NAME].value, "csrftoken": token}
    headers = {
        "X-CSRFToken": token,
        "Accept": "application/json",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    return httpx.Client(base_url=f"{url}/", cookies=cookies, headers=headers, timeout=60)


def _until(done: Callable[[], bool], condition: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise RuntimeError(f"After {PATIENCE_SECONDS:g} s {condition} was not over.")
        time.sleep(0.1)
