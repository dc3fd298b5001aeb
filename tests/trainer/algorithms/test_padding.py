"""Rows of similar length are read together, and none is lost."""

import pytest
import torch

from trainer.algorithms.padding import by_length

PROMPT, COMPLETION = 6, 9


def batch_of(lengths: tuple[tuple[int, int], ...]) -> dict[str, torch.Tensor | None]:
    """A batch whose prompts are padded on the left, and completions on the right."""
    prompts = torch.tensor([[0] * (PROMPT - prompt) + [1] * prompt for prompt, _ in lengths])
    completions = torch.tensor([[1] * own + [0] * (COMPLETION - own) for _, own in lengths])
    names = torch.arange(len(lengths)).unsqueeze(1) + 1
    return {
        "prompt_ids": prompts * names,
        "prompt_mask": prompts,
        "completion_ids": completions * names,
        "completion_mask": completions,
        "advantages": names.squeeze(1).float(),
        "num_items_in_batch": completions.sum(),
        "old_per_token_logps": None,
    }


def test_rows_of_like_length_go_together_and_none_is_lost():
    whole = batch_of(((2, 9), (6, 1), (1, 3), (4, 2)))
    halves = [
        {name: v[part] if v is not None and v.dim() else v for name, v in whole.items()}
        for part in (slice(2), slice(2, 4))
    ]
    first, second = by_length(halves)
    assert (first["advantages"], second["advantages"]) == (pytest.approx([1, 2]), pytest.approx([4, 3]))
    for part in (first, second):
        assert part["old_per_token_logps"] is None
        assert part["num_items_in_batch"] == 15
        ids, names = part["completion_ids"], part["advantages"]
        assert ids is not None
        assert names is not None
        assert torch.equal(ids.amax(1).float(), names)
