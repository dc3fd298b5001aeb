"""A forward pass reads chats instead of padded rows, and each token gets the same result as in its chat alone."""

from typing import Any

import pytest
import torch

from trainer.algorithms.packing import ReadsChats, Span, spans_of

PROMPT, COMPLETION = 6, 9
LENGTHS = ((2, 9), (6, 1), (1, 3), (4, 2), (5, 5))
"""Lengths of each row's prompt and completion."""


def inputs_of(lengths: tuple[tuple[int, int], ...] = LENGTHS) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask: prompts are padded on the left, completions on the right."""
    mask = torch.tensor(
        [[0] * (PROMPT - prompt) + [1] * (prompt + own) + [0] * (COMPLETION - own) for prompt, own in lengths]
    )
    return mask * (torch.arange(len(lengths)).unsqueeze(1) + 1), mask


class Trl:
    """The relevant behavior of TRL's trainer: a token's position is derived from all attended tokens before it, so none may be missing."""

    def __init__(self) -> None:
        self.widths: list[int] = []
        self.kept: list[int] = []

    def _get_per_token_logps_and_entropies(
        self, _: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int, **more: Any
    ) -> tuple[Any, Any, Any]:
        self.widths.append(input_ids.size(1))
        self.kept.append(logits_to_keep)
        values = (input_ids * attention_mask).cumsum(1)[:, -logits_to_keep:].float()
        return values, values * 2 if more.get("compute_entropy") else None, None


class Packed(ReadsChats, Trl):
    def __init__(self, chats: torch.Tensor | None = None) -> None:
        super().__init__()
        self._chats = torch.zeros(len(LENGTHS), COMPLETION, dtype=torch.int64) if chats is None else chats


@pytest.mark.parametrize("size", [None, 1, 2, 5, 9])
def test_every_token_gets_what_it_got_with_padding(size: int | None) -> None:
    ids, mask = inputs_of()
    expected, expected_entropies, _ = Trl()._get_per_token_logps_and_entropies(
        None, ids, mask, COMPLETION, compute_entropy=True
    )
    logps, entropies, auxiliary = Packed()._get_per_token_logps_and_entropies(
        None, ids, mask, COMPLETION, batch_size=size, compute_entropy=True
    )
    assert entropies is not None
    assert auxiliary is None
    own = mask[:, PROMPT:]
    assert torch.equal(logps, expected * own)
    assert torch.equal(entropies, expected_entropies * own)


def test_a_pass_is_as_wide_as_its_longest_chat() -> None:
    ids, mask = inputs_of()
    packed = Packed()
    packed._get_per_token_logps_and_entropies(None, ids, mask, COMPLETION, batch_size=1)
    assert sorted(packed.widths) == sorted(prompt + own for prompt, own in LENGTHS)
    assert sorted(packed.kept) == sorted(own for _, own in LENGTHS)


def test_without_entropies_there_are_none() -> None:
    ids, mask = inputs_of()
    assert Packed()._get_per_token_logps_and_entropies(None, ids, mask, COMPLETION)[1] is None


def test_where_the_chats_of_a_row_are() -> None:
    mask = torch.tensor([[0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]])
    chats = torch.tensor([[0, 0, -1, -1, 1, 1, 2, 0], [0, 0, 0, 0, 0, 0, 0, 0]])
    assert list(spans_of(mask, chats)) == [Span(0, 1, 3, 5), Span(0, 5, 7, 9), Span(0, 9, 9, 10), Span(1, 0, 3, 4)]


@pytest.mark.parametrize("size", [None, 1, 2])
def test_no_chat_of_a_row_reads_another(size: int | None) -> None:
    """Prompt 5, then 1 1 | 7 7 3 (two tokens that nobody wrote before its turn) in one row, and a single chat in the other."""
    ids = torch.tensor([[0, 5, 1, 1, 7, 7, 3], [2, 2, 4, 0, 0, 0, 0]])
    mask = torch.tensor([[0, 1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0, 0]])
    packed = Packed(torch.tensor([[0, 0, -1, -1, 1], [0, 0, 0, 0, 0]]))
    logps, *_ = packed._get_per_token_logps_and_entropies(None, ids, mask, 5, batch_size=size)
    assert logps.tolist() == [[6, 7, 0, 0, 17], [8, 0, 0, 0, 0]]
