"""Row formats that the trainer reads: dataset rows as declared in `contract.rows`, and equivalent formats.

- preferences: preference and step preference rows.
- demonstrations: demonstration rows; prompt and completion, where only the completion is learned; a preference row (its chosen side); a trajectory.
- unpaired: unpaired rows; a preference row (both sides); a trajectory (by its success).
- judged steps: process labels rows; a trajectory (by its environment's rewards and errors).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from contract.messages import Message, ToolSchema
from contract.rows import DemonstrationRow, PreferenceRow, ProcessLabelsRow, UnpairedRow
from contract.rows.declaration import completion_in, messages_in, tools_in
from contract.trajectory import FORMAT, Trajectory
from contract.values import JsonObject
from trainer.records import bad_row, read_lines

Row = TypeVar("Row")


@dataclass(frozen=True)
class Demonstration:
    """A completion that is worth imitating."""

    prompt: list[Message]
    """Carries no loss, including its assistant messages."""
    completion: list[Message]
    tools: list[ToolSchema] = field(default_factory=list)
    train_turns: list[bool] | None = None
    """For each turn of the completion, whether to learn from it; None means all."""


def read_preferences(path: Path) -> list[PreferenceRow]:
    """Raises DataFailure for the first row that cannot be used."""
    return list(parsed(path, PreferenceRow.from_json, "prompt, chosen and rejected, each a list of messages"))


def read_demonstrations(path: Path) -> list[Demonstration]:
    """Raises DataFailure for the first row that cannot be used."""
    return list(parsed(path, demonstration_from_json, "messages, or prompt and completion, or a trajectory"))


def read_unpaired(path: Path) -> list[UnpairedRow]:
    """A preference row becomes two. Raises DataFailure for the first row that cannot be used."""
    expected = "prompt, completion and label, or prompt, chosen and rejected, or a trajectory"
    return [row for rows in parsed(path, unpaired_from_json, expected) for row in rows]


def read_judged_steps(path: Path) -> list[ProcessLabelsRow]:
    """Raises DataFailure for the first row that cannot be used."""
    return list(parsed(path, judged_steps_from_json, "messages and step_labels or first_error, or a trajectory"))


def parsed(path: Path, parse: Callable[[JsonObject], Row], expected: str) -> Iterator[Row]:
    for number, row in read_lines(path):
        try:
            yield parse(row)
        except ValueError as error:
            raise bad_row(path, number, str(error), expected) from None


def demonstration_from_json(row: JsonObject) -> Demonstration:
    """Raises ValueError."""
    if row.get("format") == FORMAT:
        trajectory = Trajectory.from_json(row)
        return Demonstration([], completion_in({"steps": trajectory.chat()}, "steps"), trajectory.tools)
    if "messages" in row:
        shown = DemonstrationRow.from_json(row)
        return Demonstration([], shown.messages, shown.tools, shown.train_turns or None)
    if "chosen" in row:
        # A preference row: the better trajectory is worth imitating, including the shared steps, which are in the prompt.
        return Demonstration([], messages_in(row, "prompt") + completion_in(row, "chosen"), tools_in(row))
    return Demonstration(messages_in(row, "prompt"), completion_in(row, "completion"), tools_in(row))


def unpaired_from_json(row: JsonObject) -> list[UnpairedRow]:
    """Raises ValueError."""
    if row.get("format") == FORMAT:
        return [unpaired_by_outcome(Trajectory.from_json(row))]
    if "chosen" in row:
        pair = PreferenceRow.from_json(row)
        sides = [] if pair.tie else [(pair.chosen, True), (pair.rejected, False)]
        return [UnpairedRow(pair.prompt, side, label, pair.tools, weight=pair.weight) for side, label in sides]
    return [UnpairedRow.from_json(row)]


def unpaired_by_outcome(trajectory: Trajectory) -> UnpairedRow:
    """Desirable if the trajectory succeeded. Raises ValueError if that's unknown, or if it has no turns."""
    if trajectory.success is None or not trajectory.steps:
        raise ValueError("the trajectory has no turn, or its outcome does not say whether it succeeded")
    prompt = trajectory.steps[0].context
    completion = trajectory.chat()[len(prompt) :]
    return UnpairedRow(prompt, completion, trajectory.success, trajectory.tools)


def judged_steps_from_json(row: JsonObject) -> ProcessLabelsRow:
    """Raises ValueError."""
    if row.get("format") == FORMAT:
        return judged_by_environment(Trajectory.from_json(row))
    return ProcessLabelsRow.from_json(row)


def judged_by_environment(trajectory: Trajectory) -> ProcessLabelsRow:
    """Turns labeled by their effect: bad if a call failed or the environment's reward fell, good if it rose, otherwise neutral."""
    labels: list[float | None] = []
    for step in trajectory.steps:
        reward = step.reward or 0.0
        labels.append(-1.0 if step.error is not None or reward < 0 else 1.0 if reward > 0 else 0.0)
    first_error = next((turn for turn, label in enumerate(labels) if label == -1.0), -1)
    messages = completion_in({"steps": trajectory.chat()}, "steps")
    return ProcessLabelsRow(messages, trajectory.tools, step_labels=labels, first_error=first_error)
