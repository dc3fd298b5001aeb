"""Groups rows of similar length in forward passes.

TRL shuffles the rollouts of an optimizer step into its forward passes. Passes are as wide as their longest chat (`packing`), so rows of similar length belong
together. That changes neither losses nor gradients, beyond rounding.
"""

from collections.abc import Sequence
from typing import Any

import torch

Rows = dict[str, torch.Tensor | None]
"""A TRL batch: (B, …) tensors, scalars for the whole batch, and None."""


class GroupsByLength:
    """Mixin for TRL's online trainers."""

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


def by_length(parts: Sequence[Rows]) -> list[Rows]:
    """The same rows in as many parts, the longest in the first, so that running out of memory shows immediately."""
    rows = {name: together([part[name] for part in parts]) for name in parts[0]}
    attended = [mask for name in ("prompt_mask", "completion_mask") if (mask := rows[name]) is not None]
    order = torch.cat(attended, dim=1).sum(1).argsort(descending=True)
    return [
        {name: value[indices] if value is not None and value.dim() else value for name, value in rows.items()}
        for indices in order.chunk(len(parts))
    ]


def together(values: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    """Concatenate the parts of a split batch."""
    rows = [value for value in values if value is not None and value.dim()]
    return torch.cat(rows) if rows else values[0]
