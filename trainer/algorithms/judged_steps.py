"""Judged trajectories as token ids with a target at each turn's end, and their batches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from contract.events import Warned
from contract.rows import ProcessLabelsRow
from trainer.algorithms.preferences import padded
from trainer.algorithms.training_run import TrainingRun
from trainer.models.reward_scores import step_ends
from trainer.rendering.chat import Rendered, render_completion
from trainer.rows import read_judged_steps

UNJUDGED = 2.0
"""The label of an unjudged turn in numeric columns."""


class LabeledSteps(NamedTuple):
    """One tokenized judged trajectory."""

    rendered: Rendered
    labels: list[float | None]
    """One per turn, -1 … 1; None for turns without loss."""
    first_error: int | None
    """Index of the turn, -1 for none, None if unknown."""
    weight: float


class StepData(NamedTuple):
    """The trajectories of one file."""

    examples: list[LabeledSteps]
    too_long: int
    shortest: int


def labels_of(row: ProcessLabelsRow) -> list[float | None]:
    """The turns' labels, completed from the first error: turns before it are good and it is bad, unless labeled otherwise."""
    labels = list(row.step_labels)
    if row.first_error is None:
        return labels
    before = len(labels) if row.first_error < 0 else row.first_error
    labels[:before] = [1.0 if label is None else label for label in labels[:before]]
    if row.first_error >= 0:
        labels[row.first_error] = -1.0
    return labels


def first_error_of(row: ProcessLabelsRow) -> int | None:
    """The judged first error, or the first bad label if every turn before it is labeled; None if unknown."""
    if row.first_error is not None:
        return row.first_error
    for turn, label in enumerate(row.step_labels):
        if label is None:
            return None
        if label < 0:
            return turn
    return -1


def learnable(row: ProcessLabelsRow, *, first_error_only: bool) -> list[float | None]:
    """The labels that carry loss."""
    labels = labels_of(row)
    error = first_error_of(row)
    if first_error_only and error is not None and error >= 0:
        labels[error + 1 :] = [None] * (len(labels) - error - 1)
    return labels


def read_steps(run: TrainingRun, tokenizer: PreTrainedTokenizerBase, name: str, *, first_error_only: bool) -> StepData:
    """Rows within max_length that have a label to learn from. Raises DataFailure."""
    rows = read_judged_steps(run.folder / name)
    run.log(f"Rendering {len(rows)} rows of {name}")
    run.warn_of_lost_reasoning(tokenizer, [row.messages for row in rows], name)
    examples: list[LabeledSteps] = []
    too_long = shortest = 0
    limit = run.config.optimizer.max_length
    for row, rendered in run.rendered(
        rows, lambda row: (row, render_completion(tokenizer, [], row.messages, row.tools)), name
    ):
        shortest = min(shortest or len(rendered.ids), len(rendered.ids))
        labels = learnable(row, first_error_only=first_error_only)
        if len(rendered.ids) > limit:
            too_long += 1
        elif any(label is not None for label in labels):
            examples.append(LabeledSteps(rendered, labels, first_error_of(row), row.weight))
    if too_long:
        run.events.emit(
            Warned(
                f"{name}: left out {too_long} rows longer than {limit} tokens.",
                advice="Raise optimizer.max_length to use them.",
            )
        )
    return StepData(examples, too_long, shortest)


def step_dataset(examples: Sequence[LabeledSteps]) -> Dataset:
    """Columns: input_ids; ends and labels, one per turn; weight."""
    return Dataset.from_dict(
        {
            "input_ids": [example.rendered.ids for example in examples],
            "ends": [step_ends(example.rendered) for example in examples],
            "labels": [[UNJUDGED if label is None else label for label in example.labels] for example in examples],
            "weight": [example.weight for example in examples],
        }
    )


@dataclass
class StepCollator:
    """Pads trajectories into a batch, without unjudged turns."""

    pad_token_id: int

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """input_ids, attention_mask: (B, T) int64; row, end: (S,) int64, where turn s is read; target: (S, 3) and weight: (S,) float32."""
        judged = [
            (number, end, label, row["weight"])
            for number, row in enumerate(rows)
            for end, label in zip(row["ends"], row["labels"], strict=True)
            if label != UNJUDGED
        ]
        return {
            "input_ids": padded([row["input_ids"] for row in rows], self.pad_token_id),
            "attention_mask": padded([[1] * len(row["input_ids"]) for row in rows], 0),
            "row": torch.tensor([number for number, _, _, _ in judged]),
            "end": torch.tensor([end for _, end, _, _ in judged]),
            "target": targets(label for _, _, label, _ in judged),
            "weight": torch.tensor([weight for _, _, _, weight in judged], dtype=torch.float32),
        }


def targets(labels: Iterable[float]) -> torch.Tensor:
    """(S, 3) probabilities of bad, neutral, good: -1 -> (1, 0, 0), 0 -> (0, 1, 0), 0.25 -> (0, 0.75, 0.25)."""
    values = torch.tensor(list(labels), dtype=torch.float32)
    return torch.stack([(-values).clamp(min=0), 1 - values.abs(), values.clamp(min=0)], dim=-1)
