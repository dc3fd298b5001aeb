"""Snapshots of episodes in progress for live views: one file per episode, with its steps so far."""

import json
import shutil
import time
from hashlib import sha256
from pathlib import Path

from contract.messages import Message, ToolSchema
from contract.trajectory import Step, Task, Trajectory

FOLDER = "unfinished"
EVERY_SECONDS = 0.5
"""Seconds between snapshots of an episode; shorter episodes have none."""


class UnfinishedFolder:
    """Removes the remains of earlier attempts, whose unfinished episodes are replayed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FOLDER
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)

    def begin(self, identifier: str, task: Task, policy: str, tools: list[ToolSchema]) -> "Unfinished":
        return Unfinished(
            self.path / f"{sha256(identifier.encode()).hexdigest()[:24]}.json", identifier, task, policy, tools
        )


class Unfinished:
    """One episode, as a context manager that deletes its file on exit."""

    def __init__(self, path: Path, identifier: str, task: Task, policy: str, tools: list[ToolSchema]) -> None:
        self._path = path
        self._about = (identifier, task, policy, tools)
        self._written_at = time.monotonic()

    def __enter__(self) -> "Unfinished":
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)

    def watch(self, steps: list[Step], observation: list[Message]) -> None:
        """Called after each step, with the environment's observation."""
        if time.monotonic() - self._written_at < EVERY_SECONDS:
            return
        identifier, task, policy, tools = self._about
        so_far = Trajectory(
            task=task,
            steps=steps,
            tools=tools,
            closing=observation,
            id=identifier,
            policy=policy,
        )
        temporary = self._path.with_suffix(".tmp")
        temporary.write_text(json.dumps(so_far.to_json()), encoding="utf-8")
        temporary.replace(self._path)
        self._written_at = time.monotonic()
