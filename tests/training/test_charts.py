"""Which curves share a chart, and the groups of charts."""

from apps.training.charts import Axis, charts_of

GRPO = {
    "reward",
    "reward_std",
    "rewards/outcome/mean",
    "rewards/outcome/std",
    "rewards/step_cost/mean",
    "rewards/total/mean",
    "success",
    "kl",
    "completions/mean_length",
    "completions/min_length",
    "completions/max_length",
    "frac_reward_zero_std",
    "unheard_of",
}


def test_curves_come_in_groups_with_what_their_bands_span():
    charts = {chart.key: chart for chart in charts_of(GRPO | {"eval/success"})}
    assert list(charts) == [
        *("success", "reward", "reward-by-component", "kl-divergence", "groups-without-variance", "length"),
    ]
    assert [charts[key].group for key in ("reward", "kl-divergence", "length")] == [
        "Performance",
        "Drift from the base policy",
        "Rollouts",
    ]
    assert [(series.metric, series.band) for series in charts["reward"].series] == [
        ("reward", "± 1 standard deviation")
    ]
    assert [series.band for series in charts["length"].series] == ["shortest to longest"]
    assert [series.name for series in charts["reward-by-component"].series] == ["outcome", "step cost"]
    assert [series.name for series in charts["success"].series] == ["training", "held out"]
    assert charts["kl-divergence"].left == Axis(unit="nats")


def test_levels_of_held_out_tasks_have_curves_of_their_own():
    [chart] = charts_of({"eval/success", "eval/success/L1", "eval/success/L2"})
    assert [series.name for series in chart.series] == ["held out", "held out, L1", "held out, L2"]


def test_a_learned_reward_meets_held_out_success_with_the_kl_divergence_beside_it():
    measured = {"rewards/rm/mean", "eval/rewards/rm/mean", "eval/success", "success", "kl", "entropy", "loss"}
    charts = charts_of(measured, learned=["rm"])
    check = next(chart for chart in charts if chart.key == "learned-reward-and-success")
    assert check.title == "Learned reward against held-out success"
    assert [(series.metric, series.name, series.is_right) for series in check.series] == [
        ("rewards/rm/mean", "rm, training", False),
        ("eval/rewards/rm/mean", "rm, held out", False),
        ("eval/success", "held-out success (right axis)", True),
    ]
    assert (check.left, check.right) == (
        Axis(title="learned reward"),
        Axis(title="held-out success", format="percent"),
    )
    assert [(chart.group, chart.key) for chart in charts] == [
        ("Performance", "success"),
        ("Performance", "reward-by-component"),
        ("Performance", "reward-on-held-out-tasks"),
        ("Over-optimization", "learned-reward-and-success"),
        ("Over-optimization", "kl-divergence"),
        ("Drift from the base policy", "entropy"),
        ("Optimization", "loss"),
    ]


def test_without_held_out_tasks_a_learned_reward_meets_success_in_training():
    charts = charts_of({"rewards/rm/mean", "success"}, learned=["rm", "judge"])
    check = next(chart for chart in charts if chart.right)
    assert check.title == "Learned reward against success in training"
    assert [series.metric for series in check.series] == ["rewards/rm/mean", "success"]


def test_without_a_learned_reward_there_is_nothing_to_check():
    assert [chart.key for chart in charts_of({"rewards/outcome/mean", "eval/success", "kl"}) if chart.right] == []
