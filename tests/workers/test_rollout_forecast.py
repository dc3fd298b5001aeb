"""Estimates of a run's rollout time: from earlier runs, computed, or unknown for a stated reason."""

from pathlib import Path

import pytest

from apps.policies.models import Policy
from apps.training.models import Metric, Run
from apps.training.pace import ModelProfile, Pace, Range, paces_of
from apps.training.plan import preset_config
from contract.configs import GrpoConfig, run_config_from_json
from tests import factories
from tests.training.test_launch import a_plan
from tests.workers.test_preflight import a_model
from workers.bridge import preflight
from workers.bridge.capacity import Capacity
from workers.bridge.estimates import ModelShape
from workers.bridge.rollout_forecast import evaluations_of, from_paces, from_shape, scaled

FACTS = ModelShape(parameters=1_000_000, hidden=64, layers=4, intermediate=128, vocabulary=600)
CPU = Capacity("CPU", 64_000, on_gpu=False, tflops=0.1)


@pytest.fixture(autouse=True)
def model_roots(settings, tmp_path: Path) -> None:
    settings.MODEL_ROOTS = [tmp_path]


def grpo(**changes) -> GrpoConfig:
    """Twenty steps of 32 rollouts of 12 turns with 48 tokens; 11 evaluations of 60 tasks."""
    config = run_config_from_json(
        {
            "kind": "grpo",
            "model": {"path": "/models/base"},
            "optimizer": {"batch_size": 16, "gradient_accumulation": 2, "max_steps": 20},
            "sampling": {"max_new_tokens": 48},
            **changes,
        }
    )
    assert isinstance(config, GrpoConfig)
    return config


def pace(**changes) -> Pace:
    return Pace("grpo-1", rollouts=32, max_tokens=12 * 48, step=Range(4.0, 6.0), playing=Range(3.0, 4.0))._replace(
        **changes
    )


def test_the_time_is_that_of_the_steps_and_of_the_evaluations():
    assert evaluations_of(grpo()) == 11
    assert evaluations_of(grpo(evaluate_every=3)) == 8  # before the first step, after 3, 6, …, 18, and at the end
    forecast = from_paces(grpo(held_out=32), [pace()])
    # 20 × 4 + 11 × 3 seconds at least, 20 × 6 + 11 × 4 at most.
    assert (forecast.low, forecast.high) == (113.0, 164.0)
    assert forecast.basis == "from grpo-1 here, where a step took 4.0 s to 6.0 s"
    assert from_paces(grpo(held_out=0), [pace()])[:2] == (80.0, 120.0)


def test_what_an_earlier_run_was_not_allowed_widens_the_range():
    assert scaled(Range(4.0, 6.0), 2.0, 0.5) == (2.0, 12.0)
    same = grpo(held_out=0)
    longer = grpo(held_out=0, budget={"steps": 24})
    assert from_paces(longer, [pace()])[:2] == (80.0, 240.0)  # a policy may use fewer turns than allowed
    assert from_paces(longer, [pace()]).basis.endswith("6.0 s with other numbers of rollouts or tokens")
    assert from_paces(same, [pace(rollouts=64)])[:2] == (40.0, 120.0)  # half the rollouts: half the time, or all of it


def test_several_runs_give_the_range_of_them_all():
    forecast = from_paces(grpo(held_out=0), [pace(), pace(run="rloo-2", step=Range(2.0, 5.0))])
    assert forecast[:2] == (40.0, 120.0)
    assert forecast.basis == "from grpo-1, rloo-2 here, where a step took 2.0 s to 6.0 s"


def test_without_earlier_runs_it_is_arithmetic_on_the_budget():
    config = grpo(held_out=0, budget={"steps": 10})
    forecast = from_shape(config, FACTS, tflops=0.1)
    # All of it: 480 tokens a rollout one after the other through 4 layers (1.92 s a step), 0.05 s besides; a rollout reads
    # 10 × 512 + 480 × 10 / 2 = 7,520 tokens and writes 480: 2 × 1 M × 8,000; it is learned from by 6 × 1 M × 992 operations.
    assert forecast.high == pytest.approx(20 * (1.92 + 0.05 + 32 * (16e9 + 5.952e9) / 1e11))
    # A tenth: one turn of 48 tokens, which is read at 512 and 24 tokens.
    assert forecast.low == pytest.approx(20 * (0.192 + 0.05 + 32 * (2e6 * 584 + 6e6 * 560) / 1e11))
    assert forecast.basis.startswith("calculated: there is no similar run here yet")
    assert (from_shape(config.replaced(held_out=60), FACTS, tflops=0.1).low or 0) > (forecast.low or 0)


def practiced(of: Policy, *, seconds: float = 5.0, **fields: object) -> Run:
    """A run of twelve steps that took this long each, nine tenths of it for rollouts."""
    small = Policy(settings={"parameters": 1_000_000})
    config = preset_config(preset="quick", algorithm="grpo", method="full", base=small).to_json()
    columns = {"algorithm": "grpo", "step": 12, "parameters": 600_000_000, "device": "cpu", "config": config, **fields}
    run = factories.run(of=of.workspace, base=of, **columns)
    values = {"step_time": seconds, "rollout_seconds": 0.9 * seconds, "reward": 1.0}
    Metric.objects.bulk_create(Metric(run=run, step=step, values=values) for step in range(1, 13))
    return run


@pytest.fixture
def base(db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Policy:
    """A model of 600 million weights, for workers with a CPU."""
    monkeypatch.setattr(preflight, "largest_capacity", lambda: CPU)
    return factories.policy(kind=Policy.Kind.MODEL, location=str(a_model(tmp_path / "model")))


def answered(base: Policy, algorithm: str = "grpo"):
    base.settings = {"parameters": 1_000_000}  # only affects the preset's batch size
    plan = a_plan(
        workspace=base.workspace,
        base=base,
        algorithm=algorithm,
        version=None,
        preset="quick",
        changes={"budget": {"steps": 12}},
    )
    return preflight.check(plan.as_json())


@pytest.mark.parametrize("algorithm", ["grpo", "rloo"])
def test_a_plan_is_timed_by_what_the_workspace_has_seen(base: Policy, algorithm: str):
    run = practiced(base)
    check = answered(base, algorithm)
    # 20 steps of 5 s, and 11 evaluations of 60 tasks by a model that played 64 in 4.5 s: between 60/64 of that, and as long.
    assert check.seconds_low == pytest.approx(100 + 11 * 4.5 * 60 / 64)
    assert check.seconds_high == pytest.approx(100 + 11 * 4.5)
    assert check.time_words == f"from {run.name} here, where a step took 5.0 s"


@pytest.mark.parametrize(
    "other",
    [
        {"parameters": 1_500_000_000},
        {"device": "cuda:0"},
        {"algorithm": "star"},
        {"config": {"lora": {"rank": 8}, "tasks": {"environment": "office"}}},
        {"config": {"tasks": {"environment": "qa"}}},
        {"step": 2},
    ],
)
def test_runs_that_were_unlike_it_tell_nothing(base: Policy, other: dict):
    practiced(base, **other)
    practiced(factories.policy(kind=Policy.Kind.MODEL))  # of another workspace
    assert answered(base).time_words.startswith("calculated")


def test_the_newest_runs_count(base: Policy):
    for seconds in (50.0, 1.0, 2.0, 3.0):
        practiced(base, seconds=seconds)
    check = answered(base)
    assert check.seconds_low == pytest.approx(20 * 1.0 + 11 * 0.9 * 60 / 64)
    assert (check.seconds_high or 0) < 20 * 50


def test_a_run_that_measured_nothing_tells_nothing(base: Policy):
    run = practiced(base)
    Metric.objects.filter(run=run).update(values={"step_time": None, "rollout_seconds": None})
    assert answered(base).time_words.startswith("calculated")


def test_what_nobody_knows_is_said_with_its_reason(base: Policy, monkeypatch: pytest.MonkeyPatch):
    check = answered(base, "star")
    assert (check.seconds_high, check.time_words) == (
        None,
        "how much it learns from depends on which of its rollouts succeed",
    )
    monkeypatch.setattr(preflight, "largest_capacity", lambda: Capacity("1 GPU", 64_000, on_gpu=True))
    assert answered(base).time_words == "the speed of the worker's device is unknown (1 GPU)"
    monkeypatch.setattr(preflight, "largest_capacity", lambda: None)
    assert answered(base).time_words == "no training worker has reported its capacity"
    practiced(base)
    assert answered(base).time_words.startswith("from ")  # earlier runs tell without a worker


@pytest.mark.parametrize("runs", [1, 3])
def test_earlier_runs_are_found_with_two_queries(base: Policy, runs: int, django_assert_num_queries):
    for _ in range(runs):
        practiced(base)
    profile = ModelProfile(600_000_000, with_adapters=False, on_gpu=None)
    with django_assert_num_queries(2):
        assert len(paces_of(base.workspace, profile, environment="office")) == runs
