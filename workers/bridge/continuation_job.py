"""A continuation (a policy takes over in the middle of an episode) as a child job."""

import json
from collections.abc import Sequence
from typing import Any

from apps.annotation.desk import continuations
from apps.annotation.models import Continuation
from apps.jobs import lifecycle
from apps.trajectories.export import rich_form
from contract.configs import RunConfig, write_run_config
from contract.events import Progress, StampedEvent
from workers.bridge.child_job import ChildJob
from workers.bridge.configs import checked_config
from workers.bridge.outcomes import Outcome
from workers.bridge.rollouts import acting_policy

TRAJECTORY, ACTION, OUTPUT = "trajectory.jsonl", "action.json", "continuation.jsonl"
MAX_STEPS = 16
"""Maximum turns of a continuation."""


class ContinuationJob(ChildJob[Continuation]):
    """One attempt at a continuation that this worker has claimed."""

    def __init__(self, continuation: Continuation) -> None:
        super().__init__(continuation)
        self._output = self.folder.path / OUTPUT

    def prepare(self) -> None:
        (self.folder.path / TRAJECTORY).write_bytes(b"".join(rich_form(self.job.trajectory)))
        if self.job.action is not None:
            (self.folder.path / ACTION).write_text(json.dumps(self.job.action), encoding="utf-8")
        write_run_config(self._config(), self.folder.config)

    def _config(self) -> RunConfig:
        continuation = self.job
        policy = acting_policy(
            continuation.policy,
            {"temperature": continuation.temperature},
            self.folder.path,
            workspace_id=continuation.workspace_id,
        )
        return checked_config(
            {
                "kind": "continuation",
                "policy": policy,
                "file": TRAJECTORY,
                "step": continuation.index,
                "action": None if continuation.action is None else ACTION,
                "count": continuation.count,
                "budget": {"steps": continuation.index + 1 + MAX_STEPS},
                "output": OUTPUT,
            }
        )

    def handle_events(self, events: Sequence[StampedEvent], offset: int) -> None:
        for stamped in events:
            if isinstance(stamped.event, Progress):
                # Doesn't reset the count of losses: every attempt starts over.
                lifecycle.write(self.job, done=stamped.event.step)

    def record_stop(self, outcome: Outcome) -> None:
        """Nothing in the worker requested the stop."""
        lifecycle.fail(self.job, self.failure(outcome))

    def store_results(self, report: dict[str, Any]) -> None:
        lines = self._output.read_bytes().splitlines()
        if self.job.action is not None:
            continuations.finish_continuation(self.job, line=lines[0])
            return
        turns = [json.loads(line) for line in lines]
        problems = [turn["error"] for turn in turns if turn["error"]]
        messages = [turn["message"] for turn in turns if not turn["error"]]
        continuations.finish_sampling(self.job, messages=messages, problem=problems[0] if problems else "")
