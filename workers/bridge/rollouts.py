"""A batch of rollouts as the supervisor's job."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any
from uuid import UUID

from apps.common.live import telling
from apps.policies.models import Policy
from apps.training import live
from apps.training.folders import folder_of, last_lines
from apps.trajectories.imports.preparing import Prepared
from apps.trajectories.models import RolloutBatch
from apps.trajectories.rollouts import following, harvesting
from contract.configs import RunConfig, write_run_config
from trainer.events import StampedEvent, Started
from trainer.failures import ConfigFailure
from workers.bridge.configs import checked_config
from workers.bridge.following import Relay
from workers.bridge.locations import model_path, server_of
from workers.bridge.outcomes import Outcome

logger = logging.getLogger(__name__)

OUTPUT = "trajectories.jsonl"
PIECE_BYTES = 4 * 1024 * 1024
"""Of output stored in one transaction; one line may be longer."""
SHOW_EVERY_SECONDS = 0.5


class RolloutJob:
    """One attempt at a batch that this worker has claimed."""

    events_offset = 0  # events of earlier attempts only repeat what the output file holds

    def __init__(self, batch: RolloutBatch) -> None:
        self.batch = batch
        self.folder = folder_of(batch.pk)
        self._output = self.folder.path / OUTPUT
        self._position = batch.position
        self._shown_at = 0.0
        self._left_out: list[str] = []
        self._relay = Relay(batch.pk, self.folder.path)

    def prepare(self) -> None:
        write_run_config(rollout_config(self.batch, self.folder.path), self.folder.config)

    def started(self, process_id: int) -> None:
        harvesting.note_process(self.batch, process_id=process_id)
        following.end_all(self.batch.pk)  # of an earlier attempt
        self._show()

    def absorb(self, events: Sequence[StampedEvent], offset: int) -> None:
        for stamped in events:
            if isinstance(stamped.event, Started):
                harvesting.note_total(self.batch, total=stamped.event.total_steps)
        self._harvest()

    def pulse(self) -> bool:
        """A cancelled batch is no longer held, so Superseded ends the child: what it has played is in its output file."""
        harvesting.renew(self.batch)
        if self._relay.look():
            self._harvest()
        if self._relay.pass_on():
            self._show()
        return False

    def conclude(self, outcome: Outcome, *, handed_back: bool) -> None:
        self._harvest()
        self._relay.end()
        match outcome.kind:
            case "finished" if self._left_out:
                harvesting.fail(self.batch, failure=self._failure(self._incomplete(), "data"))
            case "finished":
                harvesting.finish(self.batch)
            case "cancelled" if handed_back:
                harvesting.release(self.batch)
            case "silent":
                harvesting.give_up_attempt(self.batch, reason=outcome.message)
            case "cancelled":  # nobody here asked for it
                harvesting.fail(self.batch, failure=self._failure(outcome, "killed"))
            case "failed":
                harvesting.fail(self.batch, failure=self._failure(outcome, outcome.category))
        self._show()

    def _harvest(self) -> None:
        """Store the whole lines that the output has beyond what is stored."""
        if not self._output.exists():
            return
        with self._output.open("rb") as output:
            output.seek(self._position)
            while lines := whole_lines(output):
                end = self._position + sum(map(len, lines))
                prepared = [read for line in lines if (read := self._read(line))]
                self._position = harvesting.store(self.batch, prepared, begin=self._position, end=end)
                output.seek(self._position)
        if time.monotonic() - self._shown_at > SHOW_EVERY_SECONDS:
            self._show()

    def _read(self, line: bytes) -> Prepared | None:
        """None for an episode that cannot be stored: the others are, and it is told at the end."""
        try:
            return harvesting.prepare_line(self.batch, line)
        except Exception as error:  # whatever a server said may be in there
            logger.exception("%s: an episode cannot be stored", self._output)
            self._left_out.append(f"{type(error).__name__}: {error}")
            return None

    def _incomplete(self) -> Outcome:
        count = len(self._left_out)
        return Outcome(
            "failed",
            message=f"{count} episode{'s' if count > 1 else ''} could not be stored. The first one: {self._left_out[0]}",
            advice=f"What was played is in {self._output}. Resume to go on without what could not be stored.",
        )

    def _failure(self, outcome: Outcome, category: str) -> dict[str, Any]:
        return {
            "category": category,
            "message": outcome.message,
            "advice": outcome.advice,
            "details": outcome.details,
            "log": last_lines(self.folder),
            "command": self.folder.command_line,
        }

    def _show(self) -> None:
        self._shown_at = time.monotonic()
        with telling(self.batch.pk):
            live.show_rollouts(self.batch.pk)


def whole_lines(output: IO[bytes]) -> list[bytes]:
    """The next lines, some megabytes of them, up to one that is still being written.

    Nothing after that one: what is written while this reads would look like a line, and be the rest of one.
    """
    lines: list[bytes] = []
    size = 0
    for line in output:
        if not line.endswith(b"\n"):
            break
        lines.append(line)
        size += len(line)
        if size >= PIECE_BYTES:
            break
    return lines


def rollout_config(batch: RolloutBatch, folder: Path) -> RunConfig:
    """What run.json says for `batch`. Raises ConfigFailure."""
    config = dict(batch.config)
    tasks = {**config.pop("tasks"), "environment": batch.environment}
    tool_calls = config.pop("tool_calls", "native")
    policy = acting_policy(batch.policy, config.pop("sampling", {}), folder, workspace_id=batch.workspace_id)
    if policy["engine"] != "scripted":
        policy["tool_calls"] = tool_calls
    return checked_config({**config, "kind": "rollout", "policy": policy, "tasks": tasks, "output": OUTPUT})


def acting_policy(policy: Policy, sampling: dict[str, Any], folder: Path, *, workspace_id: UUID) -> dict[str, Any]:
    """How the trainer is told to act as `policy`: where it is published on a server, there. Raises ConfigFailure."""
    if policy.workspace_id != workspace_id:
        raise ConfigFailure("policy: it belongs to another workspace.", advice="Choose a policy of this workspace.")
    sampling = {**policy.settings.get("sampling", {}), **sampling}
    if served := server_of(policy):
        return {
            "engine": "server",
            "url": served.endpoint.base_url,
            "model": served.name,
            "name": policy.name,
            "api_key_variable": served.endpoint.key_variable,
            "sampling": sampling,
        }
    if policy.kind == Policy.Kind.SCRIPTED:
        return {"engine": "scripted", "script": policy.location, "name": policy.name}
    model = {"path": model_path(policy, folder, workspace_id=workspace_id)}
    return {"engine": "local", "model": model, "name": policy.name, "sampling": sampling}
