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
from workers.bridge.configs import model_path, stored_config
from workers.bridge.live_episodes import Relay
from workers.bridge.outcomes import Outcome

logger = logging.getLogger(__name__)

OUTPUT = "trajectories.jsonl"
MIN_SECONDS = 20.0
"""Minimum duration of an attempt before it yields to other jobs."""
CHUNK_BYTES = 4 * 1024 * 1024
"""Bytes of output stored per transaction; a single line may be longer."""


class RolloutJob(ChildJob[RolloutBatch]):
    """One attempt at a batch that this worker has claimed."""

    refresh_seconds = 0.5
    release_reason = "It lets an annotator's request go first, and continues from here."

    def __init__(self, batch: RolloutBatch) -> None:
        super().__init__(batch)
        self._started_at = time.monotonic()
        self._output = self.folder.path / OUTPUT
        self._position = batch.position
        self._errors: list[str] = []
        self._relay = Relay(batch.pk, self.folder.path)

    def prepare(self) -> None:
        write_run_config(rollout_config(self.job, self.folder.path), self.folder.config)

    def record_start(self, process_id: int) -> None:
        super().record_start(process_id)
        live_episodes.end_all(self.job.pk)  # of an earlier attempt
        self.refresh_pages()

    def handle_events(self, events: Sequence[StampedEvent], offset: int) -> None:
        for stamped in events:
            if isinstance(stamped.event, Started):
                lifecycle.write(self.job, total=stamped.event.total_steps)
        self._store_output()

    def renew_lease(self) -> bool:
        """A cancelled batch is no longer held, so Superseded ends the child; finished episodes are in its output file."""
        stop_requested = super().renew_lease()
        if self._relay.scan():
            self._store_output()
        if self._relay.forward():
            self.refresh_pages()
        return stop_requested

    def should_yield(self) -> bool:
        """Only after some work is done, so that repeated urgent requests don't starve it."""
        return time.monotonic() - self._started_at > MIN_SECONDS and waits.should_yield(self.job)

    def record_outcome(self, outcome: Outcome, *, released: bool) -> None:
        self._store_output()
        self._relay.end()
        super().record_outcome(outcome, released=released)

    def store_results(self, report: dict[str, Any]) -> None:
        if self._errors:
            lifecycle.fail(self.job, self.failure(self._incomplete()))
        else:
            lifecycle.finish(self.job)

    def record_stop(self, outcome: Outcome) -> None:
        """Nothing in the worker requested the stop."""
        lifecycle.fail(self.job, replace(self.failure(outcome), category="killed"))

    def update_pages(self) -> None:
        live.show_rollouts(self.job.pk)

    def _store_output(self) -> None:
        """Store complete output lines not stored yet."""
        if not self._output.exists():
            return
        with self._output.open("rb") as output:
            output.seek(self._position)
            while lines := complete_lines(output):
                end = self._position + sum(map(len, lines))
                prepared = [episode for line in lines if (episode := self._read(line))]
                self._position = rollout_batches.store(self.job, prepared, begin=self._position, end=end)
                output.seek(self._position)
        self.refresh_pages_if_due()

    def _read(self, line: bytes) -> Prepared | None:
        """None for an episode that can't be stored; it's reported at the end."""
        try:
            return rollout_batches.prepare_line(self.job, line)
        except Exception as error:  # it may contain arbitrary server output
            logger.exception("%s: an episode cannot be stored", self._output)
            self._errors.append(f"{type(error).__name__}: {error}")
            return None

    def _incomplete(self) -> Outcome:
        count = len(self._errors)
        return Outcome(
            "failed",
            "data",
            message=f"{count} episode{'s' if count > 1 else ''} could not be stored. The first one: {self._errors[0]}",
            advice=f"All episodes are in {self._output}. Resume to continue without those that could not be stored.",
        )


def complete_lines(output: IO[bytes]) -> list[bytes]:
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
        if size >= CHUNK_BYTES:
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
    return stored_config({**config, "kind": "rollout", "policy": policy, "tasks": tasks, "output": OUTPUT})


def acting_policy(policy: Policy, sampling: dict[str, Any], folder: Path, *, workspace_id: UUID) -> dict[str, Any]:
    """The trainer's config of `policy`: on a server if it's published there. Raises ConfigFailure."""
    if policy.workspace_id != workspace_id:
        raise ConfigFailure("policy: it belongs to another workspace.", advice="Choose a policy of this workspace.")
    sampling = {**policy.settings.get("sampling", {}), **sampling}
    if served_model := served(policy):
        return {
            "engine": "server",
            "url": served_model.endpoint.base_url,
            "replicas": served_model.endpoint.replicas,
            "model": served_model.name,
            "published": served_model.is_published,
            "name": policy.name,
            "api_key_variable": served_model.endpoint.key_variable,
            "sampling": sampling,
        }
    if policy.kind == Policy.Kind.SCRIPTED:
        return {"engine": "scripted", "script": policy.location, "name": policy.name}
    model = {"path": model_path(policy, folder, workspace_id=workspace_id)}
    return {"engine": "local", "model": model, "name": policy.name, "sampling": sampling}
