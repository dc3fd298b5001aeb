"""Turns judged trajectories into rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from hashlib import sha256
from typing import Any

from apps.annotation.kinds import OF_TRAJECTORIES
from apps.datasets.files.splitfiles import Row
from apps.datasets.rows import chat_encoding
from apps.datasets.rows.chat_encoding import Chat, Turn, encode_message
from apps.datasets.rows.divergence import SameTrajectories, Unusable
from apps.datasets.rows.materials import Files, Materials, Source
from apps.datasets.rows.row_type import Messages, TrajectoryRule
from apps.datasets.selection.drops import Drop
from apps.datasets.selection.single_trajectories import JudgedTrajectory, judged_trajectories
from apps.datasets.selection.trajectory_votes import TrajectoryVerdict
from contract import jsontext

RUNS_AT_ONCE = 128
STEPS_AT_ONCE = 4096
"""Both limits bound the duration of a query, and so the time between renewals of the lease."""


class TrajectoryRows:
    """Writes a row for each verdict on a trajectory."""

    def __init__(self, materials: Materials, rule: TrajectoryRule) -> None:
        self.materials = materials
        self.rule = rule
        self.recipe = materials.recipe
        self.figures = materials.figures

    def write(self, files: Files) -> Iterator[list[Source]]:
        """Write everything in small batches, yielding the judgments behind each."""
        for chunk in _chunks(self._usable()):
            yield list(self._write(chunk, files))

    def _usable(self) -> Iterator[JudgedTrajectory]:
        for judged in judged_trajectories(self.recipe, self.materials.version.workspace):
            self.figures.count_opinions([vote.annotator for vote in judged.counted])
            self.figures.dropped.update(judged.decision.dropped)
            if judged.decision.verdicts:
                yield judged

    def _write(self, chunk: list[JudgedTrajectory], files: Files) -> Iterator[Source]:
        with closing(chat_encoding.read_chats([judged.trajectory for judged in chunk])) as chats:
            yield from self._rows(chunk, chats, files)

    def _rows(self, chunk: list[JudgedTrajectory], chats: Iterator[Chat], files: Files) -> Iterator[Source]:
        for judged, chat in zip(chunk, chats, strict=True):
            turns = self.materials.turns(chat.steps)
            split = self.materials.splits[judged.task.id]
            for verdict in judged.decision.verdicts:
                try:
                    messages = self._messages(turns, verdict)
                except Unusable as refusal:
                    self.figures.dropped[Drop.SAME if isinstance(refusal, SameTrajectories) else Drop.UNREADABLE] += 1
                    continue
                text = self.materials.tools_text(chat.tools)
                number = files[split].add(Row(messages, text, self._metadata(judged, verdict)))
                self._count(judged, verdict, messages, split.value)
                for vote in verdict.votes:
                    judgment: dict[str, Any] = {str(OF_TRAJECTORIES[vote.kind].model._meta.model_name): vote.judgment}
                    yield Source(judged.task.id, split.value, number, **judgment)

    def _messages(self, turns: list[Turn], verdict: TrajectoryVerdict) -> Messages:
        if verdict.correction is None:
            return self.rule.messages(turns, None)
        step, message, _ = verdict.correction
        action = {**jsontext.loads(message), "role": "assistant"}
        return self.rule.messages(turns, (step, encode_message(action, self.materials.keep_surrogates)))

    def _metadata(self, judged: JudgedTrajectory, verdict: TrajectoryVerdict) -> dict[str, Any]:
        judgments = [str(vote.judgment) for vote in verdict.votes]
        step, _, sampled = verdict.correction or ("", b"", None)
        trajectory, policy = str(judged.trajectory), self.materials.name_of(judged.policy)
        values: dict[str, Any] = {
            "id": sha256(f"{trajectory}{step}{''.join(judgments)}".encode()).hexdigest()[:16],
            "task": judged.task.key,
            "environment": judged.task.environment,
            "run": trajectory,
            "policy": policy,
            "chosen_run": "",
            "rejected_run": trajectory,
            "chosen_policy": self.materials.name_of(sampled),
            "rejected_policy": policy,
            "weight": verdict.weight,
            **verdict.metadata,
            "annotators": [self.materials.labels[vote.annotator] for vote in verdict.votes],
            "judgments": judgments,
            "items": [str(item) for item in judged.items],
        }
        return {name: values[name] for name, _ in self.materials.row_type.layout.metadata}

    def _count(self, judged: JudgedTrajectory, verdict: TrajectoryVerdict, messages: Messages, split: str) -> None:
        self.figures.count_trajectory_row(
            [message for messages_of_step in messages for message in messages_of_step],
            split=split,
            task=judged.task.id,
            environment=judged.task.environment,
            policy=self.materials.name_of(judged.policy),
        )
        if contents := self.materials.row_type.contents:
            self.figures.kinds.update(contents(verdict.metadata))


def _chunks(trajectories: Iterable[JudgedTrajectory]) -> Iterator[list[JudgedTrajectory]]:
    chunk: list[JudgedTrajectory] = []
    steps = 0
    for judged in trajectories:
        chunk.append(judged)
        steps += judged.steps
        if len(chunk) >= RUNS_AT_ONCE or steps >= STEPS_AT_ONCE:
            yield chunk
            chunk, steps = [], 0
    if chunk:
        yield chunk
