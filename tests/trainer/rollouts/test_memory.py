"""A chat in a model's KV cache continues as if it were read again, whatever else is in the batch."""

import random
from collections.abc import Sequence

import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM

from contract.configs import Sampling
from tests.trainer.policies import small_model
from trainer.rollouts.sampling import Memory, Request, Sampled, recall, sample

MODEL = small_model()
TURNS = 4
VOCABULARY = MODEL.config.vocab_size


def turn(requests: Sequence[Request], model: torch.nn.Module = MODEL) -> list[Sampled]:
    results = sample(model, requests, Sampling(), end_ids=set(range(0, VOCABULARY, 9)), pad_id=0, stopped=lambda: False)
    assert results is not None
    return results


def chat(number: int) -> tuple[list[int], random.Random]:
    """A prompt with its own length, and the random numbers that determine its continuation."""
    rng = random.Random(number)
    return [rng.randrange(10, VOCABULARY) for _ in range(3 + 7 * number)], rng


def results_of_tools(number: int, turns: int) -> list[int]:
    return [10 + number] * (1 + (5 * number + 3 * turns) % 11)


def test_turns_are_the_same_with_memory_and_without():
    chats = [chat(number) for number in range(5)]
    again = [chat(number) for number in range(5)]
    memories: list[Memory | None] = [None] * 5
    for number in range(TURNS):
        taking_part = [place for place in range(5) if (place + number) % 4]  # the others wait, so batches differ
        for place in taking_part:
            for prompt, _ in (chats[place], again[place]):
                prompt += results_of_tools(place, number)
        remembered = turn([Request(*_request(chats[place], place), memories[place]) for place in taking_part])
        for place, memory in zip(taking_part, remembered, strict=True):
            (alone,) = turn([Request(*_request(again[place], place))])
            assert memory.ids == alone.ids
            assert memory.logprobs == pytest.approx(alone.logprobs, abs=1e-4)
            for prompt, _ in (chats[place], again[place]):
                prompt += memory.ids
            memories[place] = memory.memory
            assert memory.memory is not None
            assert memory.memory.length == len(chats[place][0]) - 1  # the last token hasn't been read yet


def _request(chat: tuple[list[int], random.Random], place: int) -> tuple[list[int], int, random.Random]:
    prompt, rng = chat
    return prompt, 4 + 5 * place, rng


def test_a_turn_reads_only_what_is_new(monkeypatch: pytest.MonkeyPatch):
    prompt, rng = chat(4)
    (first,) = turn([Request(prompt, 5, rng)])
    widths = []
    forward = MODEL.forward
    monkeypatch.setattr(
        MODEL, "forward", lambda **named: [widths.append(named["input_ids"].size(1)), forward(**named)][1]
    )
    turn([Request([*prompt, *first.ids, 7, 8], 2, rng, first.memory)])
    assert widths == [3, 1]  # the last token of the previous turn, and two new ones


def test_a_model_with_a_window_reads_the_chat_again():
    config = MistralConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        sliding_window=8,
    )
    prompt, rng = chat(2)
    (sample,) = turn([Request(prompt, 5, rng)], MistralForCausalLM(config).eval())
    assert sample.ids
    assert sample.memory is None


def test_chats_of_different_lengths_stand_on_the_right():
    short, long = (Memory([torch.full((2, n, 3), float(n))], [torch.full((2, n, 3), -float(n))]) for n in (1, 4))
    cache, lengths = recall([short, None, long])
    assert lengths == [1, 0, 4]
    assert cache is not None
    assert cache.layers[0].keys[:, 0, :, 0].tolist() == [[0, 0, 0, 1], [0, 0, 0, 0], [4, 4, 4, 4]]
    assert cache.layers[0].values[:, 1, :, 2].tolist() == [[0, 0, 0, -1], [0, 0, 0, 0], [-4, -4, -4, -4]]
    assert recall([None, None]) == (None, [0, 0])
