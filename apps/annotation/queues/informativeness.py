"""How informative a judgment of a pair is, from the predictions of several models that the left or first trajectory is better.

Uncertain: where the models of the ensemble disagree (Christiano et al., 2017, section 2.2.2: the variance of their predictions).
Informative: where an answer says most about which model is right, the mutual information of answer and model (Houlsby et al.,
2011, arXiv 1112.5745). A pair on which all models predict ½ is uncertain to each, but its answer says nothing about them.
"""

from collections.abc import Sequence
from math import exp, log
from statistics import fmean, pvariance


def uncertain(chances: Sequence[float]) -> float:
    """The variance of the models' predictions; 0 if they agree."""
    return pvariance(chances)


def informative(chances: Sequence[float]) -> float:
    """Mutual information in nats: the entropy of the mean prediction minus the mean entropy."""
    return _entropy(fmean(chances)) - fmean(_entropy(chance) for chance in chances)


def _entropy(p: float) -> float:
    return -sum(q * log(q) for q in (p, 1 - p) if q > 0)


def chance_of_margin(margin: float) -> float:
    """The probability that the first is better, by Bradley–Terry, from the difference of their rewards."""
    return 1 / (1 + exp(-max(-30.0, min(30.0, margin))))
