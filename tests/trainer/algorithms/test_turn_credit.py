"""Turn-level advantages: the rewards after a turn, compared with the same turn in the rest of the group."""

import pytest

from trainer.algorithms.turn_credit import rewards_to_go, spread_over_tokens, turn_advantages, turn_rewards
from trainer.rewards import Reward


def test_a_turn_counts_for_the_next_reward_in_full_and_for_those_after_it_half():
    assert rewards_to_go([1.0, 0.0, 4.0]) == [3.0, 4.0, 4.0]
    assert rewards_to_go([]) == []


def test_the_baseline_is_the_mean_at_the_same_turn_and_a_rollout_that_is_over_has_none_to_come():
    group = [[0.5, 0.5], [0.5, 0.0], [0.0]]
    # rewards to go: [0.75, 0.5], [0.5, 0], [0]; means over the three: 5/12 at the first turn, 1/6 at the second
    assert turn_advantages(group, samples=3, scale="none") == [
        pytest.approx([1 / 3, 1 / 3]),
        pytest.approx([1 / 12, -1 / 6]),
        pytest.approx([-5 / 12]),
    ]


@pytest.mark.parametrize("scale", ["none", "group", "batch"])
def test_a_rollout_that_nobody_played_changes_nothing_for_the_others(scale):
    played = [[1.0, 0.5], [0.0, 1.0], [0.25]]
    with_absent = turn_advantages([played[0], None, *played[1:]], samples=4, scale=scale)
    assert with_absent.pop(1) == []
    assert with_absent == turn_advantages(played, samples=3, scale=scale)


def test_an_early_success_is_blamed_less_for_a_later_mistake():
    """Both reach the first goal; the second then makes a mistake. Trajectory-level credit would penalize all of its turns equally."""
    good, spoilt = turn_advantages([[1.0, 1.0], [1.0, -1.0]], samples=2, scale="none")
    assert (good, spoilt) == ([0.5, 1.0], [-0.5, -1.0])
    assert turn_advantages([[1.0, 1.0], [1.0, 1.0]], samples=2, scale="group") == [[0.0, 0.0], [0.0, 0.0]]


def test_scaling_brings_each_groups_mean_square_to_one():
    scaled = turn_advantages([[3.0], [-1.0], [0.2], [0.0]], samples=2, scale="group")
    assert [value for (value,) in scaled] == pytest.approx([1, -1, 1, -1], abs=1e-2)
    whole = turn_advantages([[3.0], [-1.0], [0.2], [0.0]], samples=2, scale="batch")
    # centered: 2, -2, 0.1, -0.1; root mean square = √(8.02 / 4) = 1.416
    assert [value for (value,) in whole] == pytest.approx([1.4124, -1.4124, 0.0706, -0.0706], abs=1e-3)


def test_what_no_turn_earned_goes_to_the_last():
    assert turn_rewards(Reward(total=0.9, parts={}, turns=[0.5, 0.0])) == pytest.approx([0.5, 0.4])
    assert turn_rewards(Reward(total=0.0, parts={}, turns=[])) == []


def test_tokens_have_their_turns_advantage_and_tool_results_none():
    spread = spread_over_tokens([[1.0, -2.0], [0.5]], [[0, 0, -1, 1], [0]])
    assert spread.tolist() == [[1.0, 1.0, 0.0, -2.0], [0.5, 0.0, 0.0, 0.0]]
