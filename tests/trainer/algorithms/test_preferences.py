"""Batches of pairs, and weights in gradients."""

import torch

from contract.rows import PreferenceRow
from tests.trainer.policies import ANSWER, ASK, FIRST, RESULT, SECOND, TOOLS, small_tokenizer
from trainer.algorithms.preferences import Pair, PairCollator, ScaleGradient, pair_dataset, rendered_pair, usable
from trainer.rendering.chat import Rendered


def test_rows_that_are_too_long_or_say_nothing_are_left_out_and_counted():
    long = PreferenceRow([ASK], [FIRST, RESULT, ANSWER], [SECOND, RESULT, ANSWER], TOOLS)
    short = PreferenceRow([ASK], [FIRST], [ANSWER], TOOLS)
    same = PreferenceRow([ASK], [FIRST, RESULT], [FIRST], TOOLS)  # equal in everything that the policy wrote
    length = max(len(pair.chosen.ids) for pair in [rendered_pair(small_tokenizer(), short)])
    result = usable([rendered_pair(small_tokenizer(), row) for row in (long, short, same)], max_length=length)
    assert (len(result.pairs), result.too_long, result.identical) == (1, 1, 1)
    assert result.shortest == length


def test_a_batch_holds_all_chosen_then_all_rejected():
    pairs = [
        Pair(Rendered([1, 2, 3], [0, 1, 1]), Rendered([1, 4], [0, 1]), margin=None, weight=1.0),
        Pair(Rendered([5, 6], [0, 1]), Rendered([5, 7, 8, 9], [0, 1, 0, 1]), margin=2.0, weight=0.5),
    ]
    batch = PairCollator(pad_token_id=0)(list(pair_dataset(pairs)))
    assert batch["input_ids"].tolist() == [[1, 2, 3, 0], [5, 6, 0, 0], [1, 4, 0, 0], [5, 7, 8, 9]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]]
    assert batch["completion_mask"].tolist() == [[0, 1, 1, 0], [0, 1, 0, 0], [0, 1, 0, 0], [0, 1, 0, 1]]
    assert batch["weight"].tolist() == [1.0, 0.5]
    assert batch["margin"].tolist() == [0.0, 2.0]


def test_scaling_keeps_values_and_weights_gradients():
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    scaled = ScaleGradient.apply(values, torch.tensor([0.5, 2.0]))
    assert torch.equal(scaled, values)
    scaled.sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == [[0.5, 0.5], [2.0, 2.0]]
