"""Preference rows as token ids with loss masks, and their batches.

TRL's own preprocessing for DPO takes every token after the prompt as the completion, including tool results. Here the mask
covers only the policy's tokens, and TRL gets the result.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from contract.rows import PreferenceRow
from trainer.rendering.chat import Rendered, render_completion

PAIR_COLUMNS = ("weight", "margin", "strength", "soft_label", "label_weight", "tie")
"""Columns of a pair besides its tokens."""


class Pair(NamedTuple):
    """One tokenized preference row."""

    chosen: Rendered
    rejected: Rendered
    margin: float | None
    weight: float
    soft_label: float | None = None
    label_weight: float = 1.0
    strength: float = 0.0
    tie: bool = False
    shown_left: float | None = None


class TokenizedPairs(NamedTuple):
    """The tokenized rows of a file, with counts of skipped ones."""

    pairs: list[Pair]
    too_long: int
    """Skipped: one side is longer than max_length."""
    identical: int
    """Skipped: both sides have the same tokens."""
    shortest: int
    """Length of the shortest row in tokens, to suggest a max_length."""


def rendered_pair(tokenizer: PreTrainedTokenizerBase, row: PreferenceRow) -> Pair:
    """Render both sides of a row. Raises whatever the chat template raises."""
    chosen, rejected = (
        render_completion(tokenizer, row.prompt, side, row.tools) for side in (row.chosen, row.rejected)
    )
    return Pair(chosen, rejected, **{name: getattr(row, name) for name in Pair._fields[2:]})


def usable(candidates: Iterable[Pair], *, max_length: int) -> TokenizedPairs:
    """The pairs that fit and whose sides differ."""
    pairs: list[Pair] = []
    too_long = identical = 0
    shortest = 0
    for pair in candidates:
        length = max(len(pair.chosen.ids), len(pair.rejected.ids))
        shortest = min(shortest or length, length)
        if length > max_length:
            too_long += 1
        elif pair.chosen == pair.rejected:
            identical += 1
        else:
            pairs.append(pair)
    return TokenizedPairs(pairs, too_long, identical, shortest)


def pair_dataset(pairs: Sequence[Pair]) -> Dataset:
    """Columns: chosen_ids, chosen_mask, rejected_ids, rejected_mask, weight, margin and strength (0 where a row
    has none), soft_label (1 where it has none), label_weight, tie."""
    return Dataset.from_dict(
        {
            "chosen_ids": [pair.chosen.ids for pair in pairs],
            "chosen_mask": [pair.chosen.mask for pair in pairs],
            "rejected_ids": [pair.rejected.ids for pair in pairs],
            "rejected_mask": [pair.rejected.mask for pair in pairs],
            "weight": [pair.weight for pair in pairs],
            "margin": [pair.margin or 0.0 for pair in pairs],
            "strength": [pair.strength for pair in pairs],
            "soft_label": [1.0 if pair.soft_label is None else pair.soft_label for pair in pairs],
            "label_weight": [pair.weight if pair.soft_label is None else pair.label_weight for pair in pairs],
            "tie": [float(pair.tie) for pair in pairs],
        }
    )


@dataclass
class PairCollator:
    """Pads pairs into a batch for TRL's losses: all chosen first, then all rejected."""

    pad_token_id: int

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """input_ids, attention_mask, completion_mask: (2B, T) int64; those in PAIR_COLUMNS: (B,) float32."""
        ids = [row[f"{side}_ids"] for side in ("chosen", "rejected") for row in rows]
        masks = [row[f"{side}_mask"] for side in ("chosen", "rejected") for row in rows]
        return {
            "input_ids": padded(ids, self.pad_token_id),
            "attention_mask": padded([[1] * len(sequence) for sequence in ids], 0),
            "completion_mask": padded(masks, 0),
            **{name: torch.tensor([row[name] for row in rows], dtype=torch.float32) for name in PAIR_COLUMNS},
        }


def padded(rows: list[list[int]], value: int) -> torch.Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


class WeightedModel:
    """Wraps a model so that the gradient of its output `field`, (N, …), is scaled by each row's weight, (N,)."""

    def __init__(self, model: Callable[..., Any], weight: torch.Tensor, field: str) -> None:
        self.model = model
        self.weight = weight
        self.field = field

    def __call__(self, **inputs: Any) -> Any:
        outputs = self.model(**inputs)
        scaled = ScaleGradient.apply(getattr(outputs, self.field), self.weight)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        setattr(outputs, self.field, scaled)
        return outputs


class ScaleGradient(torch.autograd.Function):
    """Identity in the forward pass; multiplies each row's gradient by its weight in the backward pass.

    This turns a loss that is a mean over rows into a weighted one, without changing the code that computes it.
    """

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """values: (B, …); weight: (B,)."""
        ctx.save_for_backward(weight)
        return values.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (weight,) = ctx.saved_tensors
        (gradient,) = gradients
        return gradient * weight.view(-1, *[1] * (gradient.dim() - 1)).to(gradient.dtype), None
