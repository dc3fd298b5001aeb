"""Aggregates several annotators' labels of an item into a posterior over the answers. Pure and deterministic.

Three models: majority (all annotators are equally accurate), Dawid–Skene (each annotator has a confusion matrix), GLAD
(each annotator has a skill and each item a difficulty). Posteriors are meant to be calibrated: of the items with 0.8, four in
five are true. So estimates for annotators with few judgments are shrunk towards the average.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

POOLED_JUDGMENTS = 4.0
"""Weight of the prior on an annotator's confusion matrix, in judgments."""
SETTLED = 1e-5
MAX_ROUNDS = 500


class Votes(NamedTuple):
    """N judgments. Item, annotator, and label are indices from 0."""

    item: Indices
    annotator: Indices
    label: Indices
    items: int
    annotators: int
    labels: int

    @classmethod
    def of(cls, votes: Iterable[tuple[int, Hashable, int]], *, items: int, labels: int) -> "Votes":
        """Build votes from (item index, annotator, label index). Annotators are numbered in order of appearance."""
        rows = list(votes)
        annotators: dict[Hashable, int] = {}
        annotator = [annotators.setdefault(row[1], len(annotators)) for row in rows]
        item, label = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 2))
        return cls(item, np.array(annotator, dtype=np.int64), label, items, len(annotators), labels)

    def compared(self) -> "Votes":
        """Only the judgments of items with at least two, since a single one says nothing about its annotator."""
        chosen = np.bincount(self.item, minlength=self.items)[self.item] > 1
        return self._replace(item=self.item[chosen], annotator=self.annotator[chosen], label=self.label[chosen])


def majority(votes: Votes) -> Floats:
    """(items, labels): each label's share of an item's judgments; uniform without judgments."""
    counts = _tally(votes)
    total = counts.sum(axis=1, keepdims=True)
    shares: Floats = np.where(total > 0, counts / np.maximum(total, 1), 1 / votes.labels)
    return shares


def _tally(votes: Votes) -> Floats:
    cells = np.bincount(votes.item * votes.labels + votes.label, minlength=votes.items * votes.labels)
    return cells.reshape(votes.items, votes.labels).astype(np.float64)


@dataclass(frozen=True)
class DawidSkene:
    """The estimates of the Dawid–Skene model."""

    posterior: Floats
    """(items, labels): posterior probability of each label."""
    prior: Floats
    """(labels,): the frequency of each label."""
    habits: Floats
    """(annotators, true label, given label): confusion matrices. Rows sum to 1."""


def dawid_skene(votes: Votes, *, pooled: float = POOLED_JUDGMENTS) -> DawidSkene:
    """Maximum likelihood by EM, initialized with the majority (Dawid and Skene, Applied Statistics 28, 1979), with one addition.

    Each confusion matrix is smoothed with `pooled` judgments of the pooled matrix, so that nobody is estimated as infallible
    after three judgments. 0 gives the paper's estimates. Matrices are estimated from items with at least two judgments.
    """
    posterior, compared = majority(votes), votes.compared()
    shape = (votes.annotators, votes.labels, votes.labels)
    cell = compared.annotator * votes.labels + compared.label
    items = np.unique(compared.item)
    prior, habits = np.full(votes.labels, 1 / votes.labels), np.zeros(shape)
    for _ in range(MAX_ROUNDS):
        prior = _shares(posterior[items].sum(axis=0) + pooled / votes.labels)
        believed = posterior[compared.item]  # (N, labels)
        counts = np.stack(
            [
                np.bincount(cell, believed[:, true], minlength=votes.annotators * votes.labels)
                for true in range(votes.labels)
            ]
        )
        confusion = counts.reshape(votes.labels, votes.annotators, votes.labels).swapaxes(0, 1)
        everybody = _shares(confusion.sum(axis=0) + min(pooled, 1.0) * (np.eye(votes.labels) + 1 / votes.labels))
        habits = _shares(confusion + pooled * everybody)
        with np.errstate(divide="ignore"):
            log_likelihood = np.log(habits)[votes.annotator, :, votes.label]  # (N, labels)
            evidence = _by_item(log_likelihood, votes) + np.log(prior)
        before, posterior = posterior, _normalized(evidence)
        if np.abs(posterior - before).max(initial=0.0) < SETTLED:
            break
    return DawidSkene(posterior, prior, habits)


def _shares(counts: Floats) -> Floats:
    total = counts.sum(axis=-1, keepdims=True)
    shares: Floats = np.where(total > 0, counts / np.where(total > 0, total, 1), 1 / counts.shape[-1])
    return shares


def _by_item(values: Floats, votes: Votes) -> Floats:
    """Sum (N, labels) over each item's judgments: (items, labels)."""
    return np.stack([np.bincount(votes.item, column, minlength=votes.items) for column in values.T], axis=1)


def _normalized(logs: Floats) -> Floats:
    # Items whose judgments have probability 0 under every label (only without pooling) are skipped.
    maxima = logs.max(axis=1, keepdims=True)
    shares = np.exp(logs - np.where(np.isfinite(maxima), maxima, 0.0))
    return _shares(shares)


@dataclass(frozen=True)
class Glad:
    """Skills, difficulties, and posteriors of items with two labels."""

    posterior: Floats
    """(items,): posterior probability of label 1."""
    skill: Floats
    """(annotators,): 0 is chance level, 1 is average, below 0 is worse than chance."""
    difficulty: Floats
    """(items,): 1 is average, 2 is twice as hard."""
    prior: float
    """The frequency of label 1."""


def glad(votes: Votes) -> Glad:
    """P(right) = σ(skill / difficulty) (Whitehill et al., NIPS 2009, eq. 1), for items with two labels.

    The paper uses EM, with the priors α ~ N(1, 1) on skill and log β ~ N(0, ½) on ease β = 1/difficulty. Here the marginal likelihood over
    the true labels is maximized directly, by L-BFGS with its exact gradient: the same optimum, without nested iterations. Items with a single
    judgment are left out.
    """
    if votes.labels != 2:
        raise ValueError(f"GLAD is for 2 labels; these judgments have {votes.labels}.")
    start = np.concatenate([np.ones(votes.annotators), np.zeros(votes.items), [0.0]])
    from scipy.optimize import minimize  # only here: every process would start later

    fitted = minimize(
        _glad_loss, start, args=(votes.compared(),), jac=True, method="L-BFGS-B", options={"maxiter": MAX_ROUNDS}
    )
    skill, log_ease, lean = _glad_parts(fitted.x, votes)
    return Glad(_glad_evidence(skill, log_ease, lean, votes).posterior, skill, np.exp(-log_ease), float(expit(lean)))


EASE_SPREAD = 0.5
"""Standard deviation of log ease: a few judgments say little about an item's difficulty, so it stays near the average."""


class _Evidence(NamedTuple):
    posterior: Floats
    loss: float
    """Negative log likelihood in nats, summed over items."""
    slope: Floats
    """(N,): its derivative with respect to skill × ease of each judgment."""


def _glad_parts(x: Floats, votes: Votes) -> tuple[Floats, Floats, float]:
    return x[: votes.annotators], x[votes.annotators : -1], float(x[-1])


def _glad_evidence(skill: Floats, log_ease: Floats, lean: float, votes: Votes) -> _Evidence:
    strength = skill[votes.annotator] * np.exp(log_ease[votes.item])
    toward = 2.0 * votes.label - 1.0  # +1 for label 1
    for_one = np.bincount(votes.item, log_expit(toward * strength), minlength=votes.items) + log_expit(lean)
    for_zero = np.bincount(votes.item, log_expit(-toward * strength), minlength=votes.items) + log_expit(-lean)
    posterior = expit(for_one - for_zero)
    loss = -float(np.logaddexp(for_one, for_zero).sum())
    # d/ds log σ(ts) = t σ(−ts), averaged over the posterior of the true label.
    p = posterior[votes.item]
    slope = -(p * toward * expit(-toward * strength) - (1 - p) * toward * expit(toward * strength))
    return _Evidence(posterior, loss, slope)


def _glad_loss(x: Floats, votes: Votes) -> tuple[float, Floats]:
    skill, log_ease, lean = _glad_parts(x, votes)
    evidence = _glad_evidence(skill, log_ease, lean, votes)
    ease = np.exp(log_ease)[votes.item]
    by_skill = np.bincount(votes.annotator, evidence.slope * ease, minlength=votes.annotators) + (skill - 1)
    by_ease = np.bincount(votes.item, evidence.slope * skill[votes.annotator] * ease, minlength=votes.items)
    by_lean = -float((evidence.posterior - expit(lean)).sum()) + lean  # 0 for an item without judgments
    penalty = 0.5 * float(((skill - 1) ** 2).sum() + (log_ease**2).sum() / EASE_SPREAD**2 + lean**2)
    return evidence.loss + penalty, np.concatenate([by_skill, by_ease + log_ease / EASE_SPREAD**2, [by_lean]])


class Bin(NamedTuple):
    """Items whose posterior lies in one bin."""

    mean: float
    """The mean predicted probability."""
    share: float
    """The observed frequency."""
    items: int


def reliability(
    posterior: Sequence[float] | Floats, truth: Sequence[bool] | NDArray[np.bool_], bins: int = 10
) -> list[Bin]:
    """Predicted probability against observed frequency, for items whose truth is known; empty bins are left out."""
    p, came = np.asarray(posterior, dtype=np.float64), np.asarray(truth, dtype=np.float64)
    bin_index = np.minimum((p * bins).astype(np.int64), bins - 1)
    return [
        Bin(float(p[bin_index == n].mean()), float(came[bin_index == n].mean()), int((bin_index == n).sum()))
        for n in range(bins)
        if (bin_index == n).any()
    ]


def calibration_error(posterior: Sequence[float] | Floats, truth: Sequence[bool] | NDArray[np.bool_]) -> float:
    """Expected calibration error with ten bins: the mean absolute difference of predicted and observed. 0 is perfect."""
    bins = reliability(posterior, truth)
    return sum(abs(bin_.mean - bin_.share) * bin_.items for bin_ in bins) / sum(bin_.items for bin_ in bins)
