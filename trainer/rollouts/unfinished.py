"""Episodes that are still in progress, for whoever wants to follow them: each a record in a file of its own, as far as it has come."""

import json
import shutil
import time
from hashlib import sha256
from pathlib import Path

from contract.messages import Message, ToolSchema
from contract.trajectory import Step, Task, Trajectory

FOLDER = "unfinished"
EVERY_SECONDS = 0.5
"""Between two writings of an episode; one that is over sooner is never written here."""


class UnfinishedFolder:
    """What an earlier attempt left is removed: its unfinished episodes are played again."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FOLDER
        shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True)

    def begin(self, identifier: str, task: Task, policy: str, tools: list[ToolSchema]) -> "Unfinished":
        return Unfinished(
            self.path / f"{sha256(identifier.encode()).hexdigest()[:24]}.json", identifier, task, policy, tools
        )


class Unfinished:
    """One episode. Use as a context: on leaving, the file goes."""

    def __init__(self, path: Path, identifier: str, task: Task, policy: str, tools: list[ToolSchema]) -> None:
        self._path = path
        self._given = (identifier, task, policy, tools)
        self._written_at = time.monotonic()

    def __enter__(self) -> "Unfinished":
        return self

    def __exit__(self, *_: object) -> None:
        self._path.unlink(missing_ok=True)

    def watch(self, steps: list[Step], observation: list[Message]) -> None:
        """Called after each step, with what the environment answered to it."""
        if time.monotonic() - self._written_at < EVERY_SECONDS:
            return
        identifier, task, policy, tools = self._given
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
