"""Trims padding from forward passes.

TRL pads all rollouts of an optimizer step to the longest of them and shuffles them into its forward passes. Among agents' rollouts the longest is many times
the median (an episode that loops until its budget ends), so most of the input would be padding. Padding contributes
nothing to losses or gradients: trimming it changes neither, beyond rounding.
"""

from collections.abc import Sequence
from typing import Any

import torch

Rows = dict[str, torch.Tensor | None]
"""A TRL batch: (B, …) tensors, scalars for the whole batch, and None."""


class TrimsPadding:
    """Mixin for TRL's online trainers, for text-only chats."""

    args: Any
    _step: int
    _buffered_inputs: Any

    def _prepare_inputs(self, generation_batch: Any) -> Rows:
        """The next forward pass's rows. Within an optimizer step, rows are grouped by length."""
        trl: Any = super()
        before = self._buffered_inputs
        inputs: Rows = trl._prepare_inputs(generation_batch)
        if self._buffered_inputs is before:
            return inputs
        passes, all_passes = self.args.gradient_accumulation_steps, self._buffered_inputs
        steps = (all_passes[start : start + passes] for start in range(0, len(all_passes), passes))
        self._buffered_inputs = [rows for step in steps for rows in by_length(step)]
        inputs = self._buffered_inputs[self._step % self.args.steps_per_generation]
        return inputs

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        **more: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """(B, P + T) tokens -> (B, T) log-probabilities and entropies of the last T, 0 in columns that are all padding."""
        trl: Any = super()
        order = attention_mask.sum(1).argsort()
        logps, entropies, auxiliary = [], [], []
        for places in torch.split(order, batch_size or len(order)):
            attended = attention_mask[places]
            columns = attended.any(0).nonzero()
            begin, end = int(columns[0]), int(columns[-1]) + 1
            spare = attended.size(1) - end
            found = trl._get_per_token_logps_and_entropies(
                model, input_ids[places, begin:end], attended[:, begin:end], logits_to_keep - spare, **more
            )
            logps.append(widened(found[0], spare))
            entropies += [widened(found[1], spare)] if found[1] is not None else []
            auxiliary += [found[2]] if found[2] is not None else []
        back = order.argsort()
        return (
            torch.cat(logps)[back],
            torch.cat(entropies)[back] if entropies else None,
            torch.stack(auxiliary).mean() if auxiliary else None,
        )


def widened(values: torch.Tensor, columns: int) -> torch.Tensor:
    """(B, T) -> (B, T + columns), with zeros."""
    return torch.nn.functional.pad(values, (0, columns))


def by_length(parts: Sequence[Rows]) -> list[Rows]:
    """The same rows in as many parts, the longest in the first, so that running out of memory shows immediately."""
    rows = {name: together([part[name] for part in parts]) for name in parts[0]}
    attended = [mask for name in ("prompt_mask", "completion_mask") if (mask := rows[name]) is not None]
    order = torch.cat(attended, dim=1).sum(1).argsort(descending=True)
    return [
        {name: value[places] if value is not None and value.dim() else value for name, value in rows.items()}
        for places in order.chunk(len(parts))
    ]


def together(values: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    """Concatenate the parts of a split batch."""
    rows = [value for value in values if value is not None and value.dim()]
    return torch.cat(rows) if rows else values[0]
