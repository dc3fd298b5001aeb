"""Long prompts are read in pieces that fit into memory, and say the same as when they're read at once."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM

from contract.configs import Sampling
from tests.trainer.policies import small_model
from trainer.rollouts.prefill import most_tokens, piece_length, score_bytes, width_bytes
from trainer.rollouts.sampling import Request, Sampled, sample

LENGTHS = (90, 40, 17)


def windowed_model() -> Any:
    """A model that attends to the last tokens only."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = MistralConfig(vocab_size=400, num_key_value_heads=1, sliding_window=8, **sizes)
    return MistralForCausalLM(config).eval()


def eager_model() -> Any:
    model = small_model()
    model.set_attn_implementation("eager")
    return model


@pytest.fixture(params=[small_model, windowed_model, eager_model])
def model(request: pytest.FixtureRequest) -> Iterator[Any]:
    made = request.param()
    yield made
    made.set_attn_implementation("sdpa")


def prompts(*lengths: int) -> list[Request]:
    numbers = random.Random(0)
    return [
        Request([numbers.randrange(100) for _ in range(length)], limit=5, rng=random.Random(length))
        for length in lengths
    ]


def sampled(model: Any, requests: list[Request], *, prefill_bytes: int | None) -> list[Sampled]:
    results = sample(
        model,
        requests,
        Sampling(),
        end_ids=set(),
        pad_id=0,
        stopped=lambda: False,
        prefill_bytes=prefill_bytes,
    )
    assert results is not None
    return results


@contextmanager
def noted_widths(model: Any) -> Iterator[list[int]]:
    """How many tokens of each chat the model reads at once."""
    widths: list[int] = []

    def note(_: Any, _args: Any, inputs: dict[str, Any]) -> None:
        widths.append(inputs["input_ids"].size(1))

    hook = model.register_forward_pre_hook(note, with_kwargs=True)
    yield widths
    hook.remove()


def room_for(model: Any, tokens: int, *, rows: int, length: int) -> int:
    """Memory for this many tokens of each of `rows` chats."""
    return tokens * rows * (width_bytes(model) + length * score_bytes(model))


@pytest.mark.parametrize("tokens", [1, 7, 89])
def test_a_prompt_read_in_pieces_says_the_same(model: Any, tokens: int):
    whole = sampled(model, prompts(*LENGTHS), prefill_bytes=None)
    with noted_widths(model) as widths:
        pieces = sampled(model, prompts(*LENGTHS), prefill_bytes=room_for(model, tokens, rows=3, length=90))
    assert max(widths) == tokens
    for one, other in zip(whole, pieces, strict=True):
        assert one.ids == other.ids
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-3)


def test_a_chat_continues_in_pieces_after_what_it_remembers():
    def turns(prefill_bytes: int | None) -> list[Sampled]:
        model = small_model()
        first = sampled(model, prompts(30, 20), prefill_bytes=prefill_bytes)
        following = [
            Request(request.ids + result.ids + [7] * more, limit=5, rng=random.Random(more), memory=result.memory)
            for request, result, more in zip(prompts(30, 20), first, (40, 25), strict=True)
        ]
        return sampled(model, following, prefill_bytes=prefill_bytes)

    assert [turn.ids for turn in turns(None)] == [turn.ids for turn in turns(40_000)]


def test_a_prompt_that_fits_is_read_at_once():
    model = small_model()
    with noted_widths(model) as widths:
        sampled(model, prompts(90), prefill_bytes=1 << 30)
    assert widths == [90, 1, 1, 1, 1]


def test_nobody_waits_for_the_rest_of_a_prompt_that_nobody_awaits():
    model = small_model()
    with noted_widths(model) as widths:
        memory = room_for(model, 10, rows=1, length=90)
        settings: dict[str, Any] = {"end_ids": set(), "pad_id": 0, "prefill_bytes": memory}
        assert sample(model, prompts(90), Sampling(), stopped=lambda: len(widths) == 3, **settings) is None
    assert widths == [10, 10, 10]


def test_attention_that_keeps_its_scores_leaves_room_for_fewer_tokens():
    fused, eager = small_model(), eager_model()
    eager_bytes = score_bytes(eager)
    fused.set_attn_implementation("sdpa")
    assert eager_bytes == 3 * score_bytes(fused)  # two heads
    assert score_bytes(fused) == 8


def test_models_with_a_state_read_prompts_at_once_and_take_shorter_ones(monkeypatch: pytest.MonkeyPatch):
    model = small_model()
    assert most_tokens(model, 80_000) == 10_000  # of which each step reads one
    monkeypatch.setattr(model, "_is_stateful", True, raising=False)
    assert most_tokens(model, 80_000) == min(80_000 // width_bytes(model), 100)
    with noted_widths(model) as widths:
        sampled(model, prompts(90), prefill_bytes=1)
    assert widths[0] == 90


def test_wide_layers_and_many_chats_make_pieces_short():
    model = small_model()
    assert width_bytes(model) == 4 * 4 * 64  # its widest layer
    assert piece_length(model, rows=2, length=100, most_bytes=2 * 10 * (1024 + 800)) == 10
    assert piece_length(model, rows=2, length=100, most_bytes=1) == 1
