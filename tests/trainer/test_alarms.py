"""Alarms on synthetic curves, and on curves of good and bad runs: which must raise one, and which look similar and must not."""

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from contract.configs import run_config_from_json
from contract.events import AlarmRaised, Metrics, RunCancelled
from tests.trainer.algorithms.test_sft import sft_run
from tests.trainer.policies import save_policy, small_model
from tests.trainer.runs import events_of, run_here
from trainer.alarms import Watch, remedy_for
from trainer.alarms.remedies import REMEDIES
from trainer.alarms.rules import RULES, Finding
from trainer.failures import ExitCode

STEPS = 60
CURVES = Path(__file__).parent / "curves"
"""Metrics of runs in the office environment, by algorithm and seed. GRPO with seed 3 learned noise along with the task."""
Curve = Callable[[float], float]
"""Maps a run's progress, 0 to 1, to a value."""


def alarms(*, noise: float = 0.1, seed: int = 0, **curves: Curve | float) -> dict[str, int]:
    """The alarms raised, and at which step, over 60 steps of these curves with some noise. Success is evaluated every 6 steps."""
    rng = random.Random(seed)
    watch = Watch(learned=["rewards/judge/mean"])
    raised: dict[str, int] = {}
    for step in range(1, STEPS + 1):
        values = {}
        for name, curve in curves.items():
            value = curve(step / STEPS) if callable(curve) else curve
            values[NAMES.get(name, name)] = value * (1 + noise * rng.uniform(-1, 1))
        if "eval/success" in values and step % 6:
            del values["eval/success"]
        raised |= {alarm.name: alarm.step for alarm in watch.check(step, values)}
    return raised


NAMES = {
    "held_out": "eval/success",
    "length": "completions/mean_length",
    "dead": "frac_reward_zero_std",
    "judge": "rewards/judge/mean",
    "cut_off": "completions/clipped_ratio",
}
HEALTHY = {
    "reward": lambda t: 0.4 + 0.4 * t,
    "reward_std": lambda t: 0.4 - 0.15 * t,
    "entropy": lambda t: 1.0 - 0.6 * t,
    "held_out": lambda t: 0.4 + 0.35 * t,
    "length": lambda t: 100 - 20 * t,
    "dead": lambda t: 0.3 + 0.2 * t,
    "kl": lambda t: 0.05 * t,
    "loss": 0.1,
}


def falls(start: float, end: float, *, after: float = 0.3) -> Curve:
    return lambda t: start if t < after else start + (end - start) * min(1.0, (t - after) / 0.3)


@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_run_raises_nothing(seed: int):
    assert alarms(**HEALTHY, seed=seed) == {}


@pytest.mark.parametrize("seed", range(5))
def test_the_echo_trap_is_seen_before_the_reward_falls(seed: int):
    trapped = {
        **HEALTHY,
        "reward_std": falls(0.4, 0.05),
        "entropy": falls(1.0, 0.1),
        "reward": falls(0.4, 0.1, after=0.85),
        "held_out": 0.4,
    }
    assert set(raised := alarms(**trapped, seed=seed)) == {"echo_trap"}
    assert raised["echo_trap"] < 0.85 * STEPS


def test_collapse_of_spread_and_entropy_is_health_where_the_tasks_are_solved():
    solved = {"reward_std": falls(0.4, 0.05), "entropy": falls(1.0, 0.1), "reward": falls(0.4, 0.95)}
    assert alarms(**{**HEALTHY, **solved, "held_out": falls(0.4, 0.95)}) == {}
    assert alarms(**{**HEALTHY, **solved, "held_out": falls(0.4, 0.95), "dead": falls(0.3, 0.95)}) == {}


@pytest.mark.parametrize("only", ["reward_std", "entropy"])
def test_a_fall_of_spread_or_entropy_alone_is_no_echo_trap(only: str):
    still = {"reward": 0.4, "held_out": 0.4, "reward_std": 0.4, "entropy": 1.0}
    assert alarms(**{**HEALTHY, **still, only: falls(1.0, 0.2)}) == {}


@pytest.mark.parametrize("seed", range(5))
def test_a_judge_that_is_pleased_while_success_falls_is_being_gamed(seed: int):
    gamed = {**HEALTHY, "judge": lambda t: 0.3 + 0.6 * t, "held_out": falls(0.6, 0.25)}
    raised = alarms(**gamed, seed=seed)
    assert set(raised) == {"reward_hacking"}
    assert raised["reward_hacking"] <= 0.8 * STEPS


def test_a_policy_that_is_spoiled_within_the_first_steps_is_seen_too():
    gamed = {**HEALTHY, "judge": lambda t: -0.3 + 1.1 * min(1.0, 8 * t), "held_out": lambda t: 0.3 if t < 0.15 else 0.0}
    assert set(alarms(**gamed)) == {"reward_hacking"}


def test_success_that_falls_with_the_reward_is_bad_but_no_hacking():
    assert alarms(**{**HEALTHY, "reward": falls(0.6, 0.2), "held_out": falls(0.6, 0.25)}) == {}


@pytest.mark.parametrize("seed", range(20))
def test_the_noise_of_sixty_tasks_is_no_fall_of_success(seed: int):
    rng = random.Random(seed)
    noisy = {
        **HEALTHY,
        "held_out": lambda t: sum(rng.random() < 0.6 for _ in range(60)) / 60,
        "eval/rollouts_scored": 60,
    }
    assert "reward_hacking" not in alarms(**noisy, noise=0.0)


def test_a_jump_of_the_divergence_is_seen_within_steps():
    raised = alarms(**{**HEALTHY, "kl": lambda t: 0.02 if t < 0.5 else 0.8})
    assert set(raised) == {"kl_blow_up"}
    assert 30 <= raised["kl_blow_up"] <= 34


def test_a_divergence_that_creeps_far_is_an_alarm_too():
    assert set(alarms(**{**HEALTHY, "kl": lambda t: 2.0 * t})) == {"kl_blow_up"}


@pytest.mark.parametrize("kl", [lambda t: 0.3 * t, lambda t: 0.01 if t < 0.5 else 0.08])
def test_a_divergence_that_grows_slowly_or_stays_small_is_none(kl: Curve):
    assert alarms(**{**HEALTHY, "kl": kl}) == {}


def test_the_divergence_of_whole_completions_is_measured_otherwise():
    assert alarms(loss=0.1, kl=lambda t: 8.0 * t) == {}  # as KTO logs it


def test_rollouts_that_grow_without_succeeding_more_game_the_length():
    longer = {**HEALTHY, "length": lambda t: 100 + 200 * t, "held_out": 0.4}
    assert set(alarms(**longer, noise=0.02)) == {"length_gaming"}


def test_rollouts_may_grow_where_success_does():
    assert alarms(**{**HEALTHY, "length": lambda t: 100 + 200 * t}) == {}


def test_groups_that_are_all_alike_are_dead():
    raised = alarms(**{**HEALTHY, "dead": falls(0.4, 0.9), "reward": 0.4, "held_out": 0.4})
    assert set(raised) == {"dead_groups"}


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_no_number_is_seen_at_once(bad: float):
    raised = alarms(**{**HEALTHY, "loss": lambda t: bad if t > 0.5 else 0.1})
    assert raised["not_a_number"] == 31
    assert Watch().check(3, {"loss": None})[0].name == "not_a_number"  # as events write it


def of_run(name: str) -> dict[str, int]:
    """The alarms raised on a run's stored curves, and at which step."""
    watch = Watch(learned=["rewards/learned_outcome/mean"])
    lines = [json.loads(line) for line in (CURVES / f"{name}.jsonl").read_text().splitlines()]
    return {alarm.name: alarm.step for line in lines for alarm in watch.check(line.pop("step"), line)}


def test_a_run_that_learns_noise_is_seen_before_its_tenth_step():
    assert of_run("grpo-seed-3") == {"rising_entropy": 9, "cut_off_turns": 9}


def test_a_policy_that_follows_its_reward_model_too_far_is_seen_when_its_success_collapses():
    """Of 150 held-out tasks, it solved 59 % after 10 steps, 43 after 40, 19 after 50, and 15 after 60, while the learned reward rose throughout."""
    raised = of_run("grpo-over-optimized-seed-11")
    assert raised == {"kl_blow_up": 46, "reward_hacking": 50, "rising_entropy": 51}


def test_a_policy_that_its_reward_model_never_improves_is_seen_at_the_third_evaluation():
    """Of 60 held-out tasks, it solved 40 % before training, then 38, 27, 23, and 33, while each evaluation had a higher learned reward."""
    assert of_run("grpo-learned-only-seed-12") == {"reward_hacking": 15}


def test_success_that_stands_still_under_a_rising_learned_reward_hardly_ever_looks_like_a_fall():
    """Of tasks attempted with the same random numbers, a fifth is decided anew at each evaluation."""

    def is_raised(seed: int) -> bool:
        rng = random.Random(seed)
        solved = [rng.random() < 0.5 for _ in range(60)]
        watch = Watch(learned=["rewards/judge/mean"])
        raised = []
        for step in range(0, 70, 10):
            now = [rng.random() < 0.5 if rng.random() < 0.2 else before for before in solved]
            learned = {"eval/rewards/judge/mean": 0.01 * step, "eval/rewards/judge/std": 0.4}
            raised += watch.check(step, {"eval/success": sum(now) / 60, "eval/rollouts_scored": 60.0, **learned})
        return bool(raised)

    assert sum(map(is_raised, range(200))) <= 10


BAD = {"grpo-seed-3", "grpo-over-optimized-seed-11", "grpo-learned-only-seed-12"}


@pytest.mark.parametrize("name", sorted({path.stem for path in CURVES.iterdir()} - BAD))
def test_runs_that_learned_raise_nothing(name: str):
    """The entropy of some of them doubles as well, and a fifth of their rollouts is cut off, while success on held-out tasks rises."""
    assert of_run(name) == {}


RESTLESS = {"entropy": lambda t: 0.1 + 0.4 * t, "held_out": 0.4, "reward": 0.4}


@pytest.mark.parametrize("seed", range(5))
def test_entropy_that_rises_without_success_is_noise(seed: int):
    raised = alarms(**{**HEALTHY, **RESTLESS}, seed=seed)
    assert set(raised) == {"rising_entropy"}
    assert raised["rising_entropy"] <= 20  # 0.1 + 0.4 · 20/60 = 0.23


@pytest.mark.parametrize(
    "better", [{"held_out": lambda t: 0.4 + 0.35 * min(1.0, 4 * t)}, {"entropy": lambda t: 0.01 + 0.05 * t}]
)
def test_entropy_may_rise_with_success_or_from_next_to_nothing(better: dict[str, Curve]):
    assert alarms(**{**HEALTHY, **RESTLESS, **better}, noise=0.0) == {}


def test_rollouts_that_are_cut_off_more_and_more_are_seen():
    raised = alarms(**{**HEALTHY, "cut_off": lambda t: 0.05 + 0.4 * t, "held_out": 0.4, "reward": 0.4})
    assert set(raised) == {"cut_off_turns"}
    assert alarms(**{**HEALTHY, "cut_off": 0.3, "held_out": 0.4, "reward": 0.4}) == {}  # from the first step on


def test_noise_is_no_alarm_before_it_can_be_known_whether_success_rises():
    """Evaluated after 10 steps, or never: in that case, the alarm is raised after 15."""
    noisy = {"reward": 0.4, "completions/clipped_ratio": 0.3}
    steady = {"reward": 0.4, "completions/clipped_ratio": 0.1}
    steps = [steady] * 4 + [noisy] * 11
    for after, expected in ((0.4, 10), (0.6, None)):
        evaluated = [*steps[:9], {**steps[9], "eval/success": after}, *steps[10:]]
        assert first_alarm([{"eval/success": 0.4}, *evaluated]) == expected
    assert first_alarm([{"eval/success": 0.4}, *steps]) == 15
    assert (
        first_alarm(steps) == 8
    )  # without evaluations: the last four steps were cut off three times as often as the first


def first_alarm(steps: list[dict[str, float]]) -> int | None:
    watch = Watch()
    start = 0 if "eval/success" in steps[0] else 1
    return next((number for number, values in enumerate(steps, start) if watch.check(number, values)), None)


def test_held_out_success_that_stands_still_while_the_reward_moves_is_seen():
    raised = alarms(**{**HEALTHY, "held_out": 0.4, "reward": lambda t: 0.4 + 0.8 * t}, noise=0.0)
    assert set(raised) == {"standstill"}
    assert alarms(**{**HEALTHY, "held_out": 0.4, "reward": 0.4}, noise=0.0) == {}


def test_a_margin_that_grows_at_the_cost_of_the_chosen_side_is_seen():
    pairs = {"loss": 0.6, "rewards/margins": lambda t: t}
    assert set(alarms(**pairs, **{"rewards/chosen": lambda t: -0.5 * t})) == {"chosen_falls"}
    assert alarms(**pairs, **{"rewards/chosen": lambda t: -0.1 * t}) == {}  # the rejected side loses nine times as much
    assert alarms(**pairs, **{"rewards/chosen": lambda t: 0.1 * t}) == {}


GRPO = {"kind": "grpo", "model": {"path": "base"}}
BY_SUCCESS = {"terms": [{"component": "outcome", "measure": "success"}]}


@pytest.mark.parametrize(
    ("alarm", "config", "setting", "value"),
    [
        ("not_a_number", {"optimizer": {"learning_rate": 3e-4}}, "optimizer.learning_rate", 1e-4),
        ("rising_entropy", {"optimizer": {"learning_rate": 1e-4}}, "optimizer.learning_rate", 3.3e-5),
        ("cut_off_turns", {}, "mask_cut_off", True),
        (
            "cut_off_turns",
            {"mask_cut_off": True, "rewards": {"terms": [{"component": "step_cost"}, {"component": "outcome"}]}},
            "rewards.terms[1].measure",
            "success",
        ),
        (
            "cut_off_turns",
            {"mask_cut_off": True, "rewards": BY_SUCCESS, "optimizer": {"learning_rate": 3e-4}},
            "optimizer.learning_rate",
            1e-4,
        ),
        (
            "cut_off_turns",
            {
                "mask_cut_off": True,
                "rewards": {"terms": [{"component": "format"}]},
                "optimizer": {"learning_rate": 3e-4},
            },
            "optimizer.learning_rate",
            1e-4,
        ),
        ("dead_groups", {"resample": 0}, "resample", 2),
        ("echo_trap", {"resample": 60}, "resample", 100),  # at most the allowed value
        ("kl_blow_up", {"beta": 0.1}, "beta", 0.2),
        ("reward_hacking", {}, "beta", 0.04),
        ("standstill", {}, "beta", 0.04),
        ("length_gaming", {"budget": {"steps": 10}}, "budget.steps", 6),
    ],
)
def test_each_alarm_names_one_setting_and_its_value_to_try(alarm, config, setting, value):
    remedy = remedy_for(alarm, run_config_from_json({**GRPO, **config}))
    assert remedy is not None
    assert (remedy.setting, remedy.value) == (setting, value)


def test_a_remedy_says_in_words_what_it_changes():
    dpo = run_config_from_json({"kind": "dpo", "model": {"path": "base"}, "data": {"train": "train.jsonl"}})
    assert remedy_for("chosen_falls", dpo) == ("sft_weight", 0.1, "To try: SFT weight 0.1 instead of 0.")
    masked = run_config_from_json({**GRPO, "mask_cut_off": True})
    assert remedy_for("cut_off_turns", masked) == (
        "rewards.terms[0].measure",
        "success",
        "To try: Outcome measure success instead of reward.",
    )
    grpo = run_config_from_json({**GRPO, "resample": 100})
    assert remedy_for("dead_groups", grpo) is None  # already at the maximum
    assert remedy_for("dead_groups", dpo) is None  # a setting that the algorithm doesn't have
    assert RULES.keys() == REMEDIES.keys()


def test_runs_that_measure_little_raise_nothing():
    assert alarms(loss=lambda t: 1 - t) == {}


def test_an_alarm_rises_once_also_after_a_resume():
    watch = Watch()
    past = [{"frac_reward_zero_std": 0.95}] * 20
    watch.recall(past)
    assert watch.check(21, {"frac_reward_zero_std": 0.95}) == []
    assert [alarm.name for alarm in Watch().check(1, {"reward": math.nan})] == ["not_a_number"]


def test_an_alarm_pauses_a_run_that_asked_for_it_and_a_resume_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rule = lambda curves: Finding("Too long already.", "Look.") if curves.has("loss", 3) else None  # noqa: E731
    monkeypatch.setitem(RULES, "dead_groups", rule)
    config = sft_run(tmp_path / "run", log_every=1, pause_on_alarms=True)
    config["optimizer"]["max_steps"] = 6
    assert run_here(tmp_path / "run", config) == ExitCode.CANCELLED
    events = [line.event for line in events_of(tmp_path / "run")]
    assert (
        AlarmRaised(3, "dead_groups", "Too long already.", "Look.") in events
    )  # fine-tuning has no groups to resample
    paused = events[-1]
    assert isinstance(paused, RunCancelled)
    assert (paused.checkpoint, paused.reason) == (
        "checkpoints/checkpoint-3",
        "Paused by an alarm at step 3. Too long already.",
    )
    assert run_here(tmp_path / "run", config) == ExitCode.FINISHED
    assert sum(isinstance(line.event, AlarmRaised) for line in events_of(tmp_path / "run")) == 1


def test_an_alarm_lets_a_run_go_on_that_did_not_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(RULES, "dead_groups", lambda curves: Finding("Too long already.", "Look."))
    config = sft_run(tmp_path / "run", log_every=1)
    config["optimizer"]["max_steps"] = 2
    assert run_here(tmp_path / "run", config) == ExitCode.FINISHED
    assert sum(isinstance(line.event, AlarmRaised) for line in events_of(tmp_path / "run")) == 1


def test_a_loss_that_is_not_a_number_raises_an_alarm(tmp_path: Path):
    """transformers would log the mean of earlier losses instead."""
    base = save_policy(tmp_path / "base")
    model = small_model()
    model.model.norm.weight.data.fill_(math.nan)
    model.save_pretrained(base)
    config = sft_run(tmp_path / "run", model={"path": "../base"}, log_every=1, pause_on_alarms=True)
    del config["data"]["validation"]
    assert run_here(tmp_path / "run", config) == ExitCode.CANCELLED
    events = [line.event for line in events_of(tmp_path / "run")]
    assert {event.values["loss"] for event in events if isinstance(event, Metrics)} == {None}
    assert [(event.name, event.step) for event in events if isinstance(event, AlarmRaised)] == [("not_a_number", 1)]
