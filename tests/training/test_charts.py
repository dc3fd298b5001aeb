"""Which curves share a figure, their bands, and the groups that answer one question each."""

from apps.training.charts import Point, charts_of, drawn

GRPO = {
    "reward": 0.5,
    "reward_std": 0.25,
    "rewards/outcome/mean": 0.75,
    "rewards/outcome/std": 0.5,
    "rewards/step_cost/mean": -0.25,
    "rewards/total/mean": 0.5,
    "success": 0.5,
    "kl": 0.01,
    "completions/mean_length": 40.0,
    "completions/min_length": 10.0,
    "completions/max_length": 90.0,
    "frac_reward_zero_std": 0.125,
    "unheard_of": 1.0,
}


def point(step: int, values: dict[str, float]) -> Point:
    return Point(step, values, {}, {})


def test_curves_come_in_groups_with_their_spread():
    charts = {chart.key: chart for chart in charts_of([point(1, GRPO), point(2, {"eval/success": 0.75})])}
    assert list(charts) == [
        *("success", "reward", "reward-by-component", "divergence-from-the-base", "groups-without-variance", "length"),
    ]
    assert [charts[key].group for key in ("reward", "length")] == [
        "Is it getting better?",
        "What do its rollouts look like?",
    ]
    assert charts["reward"].metrics == "reward reward:low reward:high"
    assert charts["reward"].rows == [(1, ["0.5", "0.25", "0.75"])]  # 0.5 ± 0.25
    assert charts["length"].rows == [(1, ["40", "10", "90"])]  # the shortest and the longest
    assert [series.name for series in charts["reward-by-component"].series] == ["outcome", "step cost"]
    assert charts["success"].rows == [(1, ["0.5", ""]), (2, ["", "0.75"])]
    assert [series.is_sparse for series in charts["success"].series] == [False, True]


def test_a_point_on_its_way_to_a_page_has_what_is_drawn_and_the_bands():
    assert drawn({"reward": 0.5, "reward_std": 0.25, "rewards/total/mean": 0.5, "unheard_of": 1.0}) == {
        "reward": 0.5,
        "reward:low": 0.25,
        "reward:high": 0.75,
    }


def test_levels_of_held_out_tasks_have_curves_of_their_own():
    [chart] = charts_of([point(5, {"eval/success": 0.5, "eval/success/L1": 0.75, "eval/success/L2": 0.25})])
    assert [series.name for series in chart.series] == ["held out", "held out, L1", "held out, L2"]
