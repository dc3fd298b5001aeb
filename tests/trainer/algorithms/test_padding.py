"""Padding is left out of forward passes, and nothing else changes."""

from typing import Any

import pytest
import torch

from trainer.algorithms.padding import TrimsPadding, by_length

PROMPT, COMPLETION = 6, 9
LENGTHS = ((2, 9), (6, 1), (1, 3), (4, 2), (5, 5))
"""Of each row the prompt's and the completion's."""


def batch_of(lengths: tuple[tuple[int, int], ...] = LENGTHS) -> dict[str, torch.Tensor | None]:
    """Prompts are padded on the left, completions on the right."""
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


class Trl:
    """What TRL's trainer does, as far as it matters: each token's number from all attended tokens before it, so that none may be lost."""

    def __init__(self) -> None:
        self.widths: list[int] = []

    def _get_per_token_logps_and_entropies(
        self, _: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int, **more: Any
    ) -> tuple[Any, Any, Any]:
        self.widths.append(input_ids.size(1))
        values = (input_ids * attention_mask).cumsum(1)[:, -logits_to_keep:].float()
        return values, values * 2 if more.get("compute_entropy") else None, None


class Trimmed(TrimsPadding, Trl):
    pass


def inputs_of(batch: dict[str, torch.Tensor | None]) -> tuple[torch.Tensor, torch.Tensor]:
    parts = [batch[name] for name in ("prompt_ids", "completion_ids", "prompt_mask", "completion_mask")]
    prompt, completion, prompt_mask, completion_mask = (part for part in parts if part is not None)
    return torch.cat([prompt, completion], dim=1), torch.cat([prompt_mask, completion_mask], dim=1)


@pytest.mark.parametrize("size", [None, 1, 2, 5, 9])
def test_every_token_gets_what_it_got_with_padding(size: int | None):
    ids, mask = inputs_of(batch_of())
    bare, trimmed = Trl(), Trimmed()
    expected, expected_entropies, _ = bare._get_per_token_logps_and_entropies(
        None, ids, mask, COMPLETION, compute_entropy=True
    )
    found, entropies, auxiliary = trimmed._get_per_token_logps_and_entropies(
        None, ids, mask, COMPLETION, batch_size=size, compute_entropy=True
    )
    assert entropies is not None
    assert auxiliary is None
    own = mask[:, PROMPT:]
    assert found.shape == expected.shape
    assert torch.equal(found * own, expected * own)
    assert torch.equal(entropies * own, expected_entropies * own)


def test_a_pass_is_as_wide_as_its_widest_row():
    ids, mask = inputs_of(batch_of())
    trimmed = Trimmed()
    trimmed._get_per_token_logps_and_entropies(None, ids, mask, COMPLETION, batch_size=1)
    assert sorted(trimmed.widths) == sorted(prompt + own for prompt, own in LENGTHS)


def test_without_entropies_there_are_none():
    ids, mask = inputs_of(batch_of())
    assert Trimmed()._get_per_token_logps_and_entropies(None, ids, mask, COMPLETION)[1] is None


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
