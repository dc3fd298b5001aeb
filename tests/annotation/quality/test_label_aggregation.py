import numpy as np
import pytest
from scipy.optimize import check_grad

from apps.annotation.quality.label_aggregation import (
    Votes,
    _glad_loss,
    calibration_error,
    dawid_skene,
    glad,
    majority,
    reliability,
)

# Dawid and Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm" (Applied Statistics 28,
# 1979), table 1: five anaesthetists graded 45 patients 1 to 4; the first of them three times. A line is how many
# patients look like this, then the grades of observer 1 (thrice), 2, 3, 4, 5.
ANAESTHETISTS = """
12 111 1111  1 333 4334  1 112 2122  1 222 3121  2 222 3222  1 222 3322  1 122 2111  1 333 3433  1 222 2223  1 232 2223
1 444 4444  1 222 3343  1 222 3212  2 121 1111  1 111 2111  2 222 2221  1 222 1322  3 222 2222  1 221 2222  2 232 2222
1 112 1121  1 333 3233  1 222 3232  1 433 4343  1 221 2232  1 232 3233  1 333 3432  1 121 2111
"""


def anaesthetists() -> Votes:
    words = iter(ANAESTHETISTS.split())
    votes, patient = [], 0
    for times, thrice, others in zip(words, words, words, strict=True):
        for _ in range(int(times)):
            votes += [(patient, 1, int(grade) - 1) for grade in thrice]
            votes += [(patient, observer, int(grade) - 1) for observer, grade in enumerate(others, start=2)]
            patient += 1
    return Votes.of(votes, items=patient, labels=4)


def test_dawid_and_skenes_estimates_are_those_of_their_paper():
    votes = anaesthetists()
    assert (votes.items, len(votes.item)) == (45, 45 * 7)
    estimates = dawid_skene(votes, pooled=0)
    assert estimates.prior == pytest.approx([0.40, 0.42, 0.11, 0.07], abs=0.005)  # table 2: the estimated marginals
    assert np.diagonal(estimates.habits[0]) == pytest.approx(
        [0.89, 0.88, 0.66, 0.44], abs=0.005
    )  # how often observer 1 is right


class Crowd:
    """Simulated annotators of known skill on items of known truth: `right` is each one's probability of a correct answer."""

    def __init__(self, right: list[float], *, items: int, per_item: int, labels: int = 2, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.truth = rng.integers(0, labels, items)
        votes = []
        for item in range(items):
            for who in rng.choice(len(right), per_item, replace=False):
                wrong = (self.truth[item] + rng.integers(1, labels)) % labels
                votes.append((item, int(who), int(self.truth[item] if rng.random() < right[who] else wrong)))
        self.votes = Votes.of(sorted(votes, key=lambda vote: vote[1]), items=items, labels=labels)

    def accuracy(self, posterior: np.ndarray) -> float:
        return float((posterior.argmax(axis=1) == self.truth).mean())


def two_way(posterior: np.ndarray) -> np.ndarray:
    return np.stack([1 - posterior, posterior], axis=1)


def test_majority_is_the_share_of_votes():
    votes = Votes.of([(0, "x", 1), (0, "y", 1), (0, "z", 0)], items=2, labels=2)
    assert majority(votes) == pytest.approx(np.array([[1 / 3, 2 / 3], [0.5, 0.5]]))


def test_habits_are_found_out_and_used_where_the_majority_is_misled():
    # Two experts and three who guess: by majority the guessers often outvote the experts.
    crowd = Crowd([0.95, 0.95, 0.5, 0.5, 0.5], items=2000, per_item=5)
    by_majority = crowd.accuracy(majority(crowd.votes))
    estimates = dawid_skene(crowd.votes)
    assert estimates.habits[0, 1, 1] == pytest.approx(0.95, abs=0.03)
    assert estimates.habits[4, 1, 1] == pytest.approx(0.5, abs=0.05)
    assert crowd.accuracy(estimates.posterior) > by_majority + 0.05
    assert crowd.accuracy(two_way(glad(crowd.votes).posterior)) > by_majority + 0.05


def test_somebody_who_is_always_wrong_is_turned_round():
    crowd = Crowd([0.9, 0.9, 0.9, 0.1], items=1000, per_item=4)
    estimates = glad(crowd.votes)
    assert estimates.skill[3] < -0.5
    assert crowd.accuracy(two_way(estimates.posterior)) > crowd.accuracy(majority(crowd.votes))


def test_items_on_which_people_differ_are_the_difficult_ones():
    votes = [(item, who, 1) for item in range(20) for who in range(6)]
    votes += [(item, who, who % 2) for item in range(20, 40) for who in range(6)]
    estimates = glad(Votes.of(votes, items=40, labels=2))
    assert estimates.difficulty[:20].max() < 0.9 < estimates.difficulty[20:].min()


@pytest.mark.parametrize("judgments_each", [1, 2, 3, 5])
@pytest.mark.parametrize("way", ["dawid_skene", "glad"])
def test_posteriors_are_calibrated(way, judgments_each):
    """Calibration: about four in five of the items with probability 0.8 are true, however few people judge each item."""
    right = list(np.random.default_rng(5).uniform(0.6, 0.95, 12))
    crowd = Crowd(right, items=4000, per_item=judgments_each)
    posterior = dawid_skene(crowd.votes).posterior[:, 1] if way == "dawid_skene" else glad(crowd.votes).posterior
    assert calibration_error(posterior, crowd.truth == 1) < 0.06


def test_of_somebody_with_two_judgments_little_is_believed():
    crowd = Crowd([0.8] * 6, items=600, per_item=3)
    votes = crowd.votes
    newcomer = Votes(
        np.append(votes.item, [0, 1]), np.append(votes.annotator, [6, 6]), np.append(votes.label, crowd.truth[:2]),
        votes.items, 7, 2,
    )  # fmt: skip
    habits = dawid_skene(newcomer).habits[6]
    assert 0.75 < np.diagonal(habits).mean() < 0.95  # near what everybody does, although both were right


def test_the_same_judgments_give_the_same_posteriors_in_any_order():
    crowd = Crowd([0.9, 0.8, 0.7, 0.6], items=300, per_item=3, labels=3)
    order = np.random.default_rng(1).permutation(len(crowd.votes.item))
    shuffled = crowd.votes._replace(
        **{name: getattr(crowd.votes, name)[order] for name in ("item", "annotator", "label")}
    )
    assert dawid_skene(shuffled).posterior == pytest.approx(dawid_skene(crowd.votes).posterior, abs=1e-9)
    assert np.array_equal(dawid_skene(crowd.votes).posterior, dawid_skene(crowd.votes).posterior)


def test_the_gradient_of_glad_is_that_of_its_loss():
    votes = Crowd([0.9, 0.6, 0.7], items=8, per_item=2).votes
    x = np.random.default_rng(2).normal(size=3 + 8 + 1)
    assert check_grad(lambda x: _glad_loss(x, votes)[0], lambda x: _glad_loss(x, votes)[1], x) < 1e-5


def test_glad_is_for_two_labels():
    with pytest.raises(ValueError, match="2 labels; these judgments have 3"):
        glad(Votes.of([(0, "x", 2)], items=1, labels=3))


def test_reliability_is_promised_against_true():
    curve = reliability([0.85, 0.85, 0.85, 0.85, 0.1], [True, True, True, False, False])
    assert [(curve_bin.mean, curve_bin.share, curve_bin.items) for curve_bin in curve] == [
        (0.1, 0.0, 1),
        (pytest.approx(0.85), 0.75, 4),
    ]
    assert calibration_error([0.85] * 4, [True, True, True, False]) == pytest.approx(0.1)
