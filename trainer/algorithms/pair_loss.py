"""The loss of a reward model on pairs. Pure."""

from math import expm1, log

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def pair_losses(
    chosen: Tensor, rejected: Tensor, *, margin: Tensor, soft_label: Tensor, tie: Tensor, tie_margin: float
) -> Tensor:
    """Negative log-likelihood of each pair in nats, (B,): Bradley-Terry, with ties after Rao and Kupper (1967).

    chosen, rejected: rewards, (B,) float32. margin: the required difference (Touvron et al., 2023, section 3.2.2). soft_label: the
    probability that the chosen side is better; it mixes the losses of both orders. tie: 1 where neither is better. tie_margin: η = log θ, so
    that P(first wins) = σ(Δ - η) and P(tie) = (θ² - 1) σ(Δ - η) σ(-Δ - η); with η = 0, P(tie) = 0 and a tie counts as half a win for each side.
    """
    difference = chosen - rejected
    wins = logsigmoid(difference - margin - tie_margin)
    loses = logsigmoid(-difference - margin - tie_margin)
    likely = torch.where(tie > 0, 0.5, soft_label)
    decided = -(likely * wins + (1 - likely) * loses)
    if tie_margin == 0:
        return decided
    tied = -(log(expm1(2 * tie_margin)) + logsigmoid(difference - tie_margin) + logsigmoid(-difference - tie_margin))
    return torch.where(tie > 0, tied, decided)
