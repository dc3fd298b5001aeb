"""A batch of rollouts as a child job."""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any
from uuid import UUID

from apps.jobs import lifecycle, waits
from apps.policies.aliases import served
from apps.policies.models import Policy
from apps.training import live
from apps.trajectories.imports.preparation import Prepared
from apps.trajectories.models import RolloutBatch
from apps.trajectories.rollouts import live_episodes, rollout_batches
from contract.configs import RunConfig, write_run_config
from contract.events import StampedEvent, Started
from trainer.failures import ConfigFailure
from workers.bridge.child_job import ChildJob
from workers.bridge.configs import checked_config, model_path
from workers.bridge.live_episodes import Relay
from workers.bridge.outcomes import Outcome

logger = logging.getLogger(__name__)

OUTPUT = "trajectories.jsonl"
LEAST_SECONDS = 20.0
"""Minimum duration of an attempt before it yields to other jobs."""
PIECE_BYTES = 4 * 1024 * 1024
"""Bytes of output stored per transaction; a single line may be longer."""


class RolloutJob(ChildJob[RolloutBatch]):
    """One attempt at a batch that this worker has claimed."""

    show_every_seconds = 0.5
    handed_back_because = "It lets an annotator’s request go first, and continues from here."

    def __init__(self, batch: RolloutBatch) -> None:
        super().__init__(batch)
        self._began_at = time.monotonic()
        self._output = self.folder.path / OUTPUT
        self._position = batch.position
        self._left_out: list[str] = []
        self._relay = Relay(batch.pk, self.folder.path)

    def prepare(self) -> None:
        write_run_config(rollout_config(self.job, self.folder.path), self.folder.config)

    def started(self, process_id: int) -> None:
        super().started(process_id)
        live_episodes.end_all(self.job.pk)  # of an earlier attempt
        self.show()

    def absorb(self, events: Sequence[StampedEvent], offset: int) -> None:
        for stamped in events:
            if isinstance(stamped.event, Started):
                lifecycle.write(self.job, total=stamped.event.total_steps)
        self._harvest()

    def pulse(self) -> bool:
        """A cancelled batch is no longer held, so Superseded ends the child; finished episodes are in its output file."""
        wanted = super().pulse()
        if self._relay.look():
            self._harvest()
        if self._relay.pass_on():
            self.show()
        return wanted

    def should_yield(self) -> bool:
        """Only after some work is done, so that repeated urgent requests don't starve it."""
        return time.monotonic() - self._began_at > LEAST_SECONDS and waits.should_yield(self.job)

    def conclude(self, outcome: Outcome, *, handed_back: bool) -> None:
        self._harvest()
        self._relay.end()
        super().conclude(outcome, handed_back=handed_back)

    def keep(self, report: dict[str, Any]) -> None:
        if self._left_out:
            lifecycle.fail(self.job, self.failure(self._incomplete()))
        else:
            lifecycle.finish(self.job)

    def stopped(self, outcome: Outcome) -> None:
        """Nothing in the worker requested the stop."""
        lifecycle.fail(self.job, replace(self.failure(outcome), category="killed"))

    def update_pages(self) -> None:
        live.show_rollouts(self.job.pk)

    def _harvest(self) -> None:
        """Store complete output lines not stored yet."""
        if not self._output.exists():
            return
        with self._output.open("rb") as output:
            output.seek(self._position)
            while lines := whole_lines(output):
                end = self._position + sum(map(len, lines))
                prepared = [read for line in lines if (read := self._read(line))]
                self._position = rollout_batches.store(self.job, prepared, begin=self._position, end=end)
                output.seek(self._position)
        self.show_now_and_then()

    def _read(self, line: bytes) -> Prepared | None:
        """None for an episode that can't be stored; it's reported at the end."""
        try:
            return rollout_batches.prepare_line(self.job, line)
        except Exception as error:  # it may contain arbitrary server output
            logger.exception("%s: an episode cannot be stored", self._output)
            self._left_out.append(f"{type(error).__name__}: {error}")
            return None

    def _incomplete(self) -> Outcome:
        count = len(self._left_out)
        return Outcome(
            "failed",
            "data",
            message=f"{count} episode{'s' if count > 1 else ''} could not be stored. The first one: {self._left_out[0]}",
            advice=f"What was played is in {self._output}. Resume to go on without what could not be stored.",
        )


def whole_lines(output: IO[bytes]) -> list[bytes]:
    """The next few megabytes of complete lines.

    Stops at the first incomplete line: text appended during the read could be mistaken for a line of its own.
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
    """The run.json of `batch`. Raises ConfigFailure."""
    config = dict(batch.config)
    tasks = {**config.pop("tasks"), "environment": batch.environment}
    tool_calls = config.pop("tool_calls", "native")
    policy = acting_policy(batch.policy, config.pop("sampling", {}), folder, workspace_id=batch.workspace_id)
    if policy["engine"] != "scripted":
        policy["tool_calls"] = tool_calls
    return checked_config({**config, "kind": "rollout", "policy": policy, "tasks": tasks, "output": OUTPUT})


def acting_policy(policy: Policy, sampling: dict[str, Any], folder: Path, *, workspace_id: UUID) -> dict[str, Any]:
    """The trainer's config of `policy`: on a server if it's published there. Raises ConfigFailure."""
    if policy.workspace_id != workspace_id:
        raise ConfigFailure("policy: it belongs to another workspace.", advice="Choose a policy of this workspace.")
    sampling = {**policy.settings.get("sampling", {}), **sampling}
    if there := served(policy):
        return {
            "engine": "server",
            "url": there.endpoint.base_url,
            "replicas": there.endpoint.replicas,
            "model": there.name,
            "published": there.is_published,
            "name": policy.name,
            "api_key_variable": there.endpoint.key_variable,
            "sampling": sampling,
        }
    if policy.kind == Policy.Kind.SCRIPTED:
        return {"engine": "scripted", "script": policy.location, "name": policy.name}
    model = {"path": model_path(policy, folder, workspace_id=workspace_id)}
    return {"engine": "local", "model": model, "name": policy.name, "sampling": sampling}
