"""Sampling: the right token for each random number, and the same turn in any batch."""

import random
from collections.abc import Sequence
from itertools import zip_longest

import pytest
import torch

from contract.configs import Sampling
from tests.trainer.policies import ANSWER, ASK, FIRST, RESULT, TOOLS, small_model, small_tokenizer
from trainer.rendering.chat import render_prompt
from trainer.rollouts.sampling import Request, Sampled, choose, sample

TOKENIZER = small_tokenizer()
CHATS = [[ASK], [ASK, FIRST, RESULT], [ASK, FIRST, RESULT, ANSWER, ASK]]
LOGPROBS = torch.tensor([[0.1, 0.6, 0.3]]).log()


@pytest.mark.parametrize(
    ("number", "token"),
    # In order of probability: token 1 takes [0, 0.6), token 2 takes [0.6, 0.9), token 0 the rest
    [(0.0, 1), (0.59, 1), (0.61, 2), (0.89, 2), (0.91, 0), (0.9999, 0)],
)
def test_each_token_takes_its_share_of_the_unit_interval(number: float, token: int):
    assert choose(LOGPROBS, Sampling(), [number]).tolist() == [token]


def test_top_p_keeps_the_smallest_set_that_reaches_it():
    chosen = choose(LOGPROBS.repeat(3, 1), Sampling(top_p=0.7), [0.1, 0.65, 0.9999])
    assert chosen.tolist() == [1, 1, 2]  # 0.6 / 0.9 = 0.667 of what is left is token 1's


@pytest.mark.parametrize("spread", [0.1, 2, 8])  # from far more tokens than are initially sorted down to a few
@pytest.mark.parametrize("top_p", [0.5, 0.95, 1])
def test_rare_tokens_are_drawn_as_if_all_had_been_put_in_order(spread: float, top_p: float):
    logprobs = (torch.randn(32, 2000, generator=torch.Generator().manual_seed(0)) * spread).double().log_softmax(-1)
    numbers = [place / 32 for place in range(32)]
    for row, number, token in zip(logprobs, numbers, choose(logprobs, Sampling(top_p=top_p), numbers), strict=True):
        likeliest, tokens = row.exp().sort(descending=True)
        kept = int((likeliest.cumsum(0) < top_p - 1e-12).sum()) + 1
        shares = (likeliest[:kept] / likeliest[:kept].sum()).cumsum(0)
        assert token == tokens[int((shares <= number).sum())]


def test_temperature_sharpens_and_zero_takes_the_likeliest():
    # At temperature 0.5 the shares are 0.36, 0.09 and 0.01 of 0.46: token 1 takes [0, 0.783)
    assert choose(LOGPROBS.repeat(2, 1), Sampling(temperature=0.5), [0.78, 0.79]).tolist() == [1, 2]
    assert choose(LOGPROBS, Sampling(temperature=0), [0.99]).tolist() == [1]


def answers(*numbers: int, sampling: Sampling | None = None, limits: Sequence[int] = ()) -> list[Sampled]:
    requests = [
        Request(render_prompt(TOKENIZER, CHATS[number], TOOLS), limit=limit, rng=random.Random(number))
        for number, limit in zip_longest(numbers, limits, fillvalue=12)
    ]
    results = sample(
        small_model(),
        requests,
        sampling or Sampling(),
        end_ids={TOKENIZER.eos_token_id},
        pad_id=TOKENIZER.pad_token_id,
        stopped=lambda: False,
    )
    assert results is not None
    return results


def test_a_chat_is_answered_the_same_alone_and_in_company():
    together = answers(0, 1, 2)
    assert [turn.ids for turn in together] == [answers(number)[0].ids for number in range(3)]
    assert len({tuple(turn.ids) for turn in together}) == 3


def test_a_long_answer_is_the_same_once_the_others_have_ended():
    (alone,) = answers(2)
    assert len(alone.ids) > 4
    assert answers(0, 1, 2, 1, limits=(2, 3, 12, 4))[2].ids == alone.ids


def test_logprobs_are_the_models_own_and_do_not_know_of_temperature():
    for number, answer in enumerate(answers(0, 1, 2, sampling=Sampling(temperature=0.7, top_p=0.9))):
        prompt = render_prompt(TOKENIZER, CHATS[number], TOOLS)
        with torch.no_grad():
            logprobs = small_model()(torch.tensor([prompt + answer.ids])).logits[0].log_softmax(-1)
        expected = [logprobs[len(prompt) - 1 + index, token].item() for index, token in enumerate(answer.ids)]
        assert answer.logprobs == pytest.approx(expected, abs=1e-4)


def test_a_turn_ends_with_the_end_token_or_at_its_limit():
    ends = set(range(0, 400, 7))
    (answer,) = sample(
        small_model(),
        [Request(render_prompt(TOKENIZER, CHATS[0], TOOLS), limit=50, rng=random.Random(0))],
        Sampling(),
        end_ids=ends,
        pad_id=TOKENIZER.pad_token_id,
        stopped=lambda: False,
    ) or [Sampled([], [])]
    assert answer.ids[-1] in ends
    assert not ends & set(answer.ids[:-1])
    assert len(answers(0)[0].ids) <= 12


def test_a_stop_is_seen_between_two_tokens():
    answers_in_turn = iter([False, False, True])
    request = Request(render_prompt(TOKENIZER, CHATS[0], TOOLS), limit=50, rng=random.Random(0))
    results = sample(
        small_model(), [request], Sampling(), end_ids=set(), pad_id=0, stopped=lambda: next(answers_in_turn)
    )
    assert results is None
