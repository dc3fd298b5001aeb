"""Reward terms, their weights, and the sum; every part stays visible."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from contract.configs import InvalidConfig, RewardsConfig
from contract.events import EventReader, Warned
from contract.trajectory import Outcome, Step, Task, Trajectory
from trainer.events import EventLog
from trainer.rewards import rewards_for
from trainer.rewards.total import metrics_of

TASK = Task(key="t", instruction="Do it.")


def turn(reward: float | None = None, **info: Any) -> Step:
    return Step(context=[], message={"role": "assistant", "content": "ok"}, reward=reward, info=info)


def run(*steps: Step, reward: float | None = 1.0, success: bool | None = True, **info: Any) -> Trajectory:
    return Trajectory(TASK, list(steps), Outcome(reward=reward, success=success), info=info)


def rewards(*terms: dict[str, Any]) -> Any:
    return rewards_for(RewardsConfig.from_json({"terms": list(terms)}), Path())


def test_by_default_a_run_is_worth_its_outcome():
    (reward,) = rewards_for(RewardsConfig(), Path()).score([run(turn(0.25), turn(0.5), reward=0.75)])
    assert (reward.total, reward.parts, reward.turns) == (0.75, {"outcome": 0.75}, [0.25, 0.5])


def test_an_outcome_that_is_no_number_says_nothing():
    """Otherwise it would count as the best possible: `min(1.0, nan)` is 1."""
    scores = [
        score.parts["outcome"]
        for score in rewards_for(RewardsConfig(), Path()).score(
            [run(turn(), reward=reward) for reward in (float("nan"), float("inf"), float("-inf"))]
        )
    ]
    assert scores == [None, 1.0, -1.0]


def test_what_a_turn_earned_is_bounded_as_the_outcome_is():
    """A runner or a served environment may report 1e300 for a turn, or NaN: all advantages of its group would be invalid."""
    steps = [turn(1e300), turn(float("-inf")), turn(float("nan")), turn(0.5)]
    (reward,) = rewards_for(RewardsConfig(), Path()).score([run(*steps, reward=1.0)])
    assert reward.turns == [1.0, -1.0, 0.0, 0.5]


def test_success_is_what_counts_where_the_environment_knows_it_and_else_the_reward():
    by_success = rewards({"component": "outcome", "measure": "success"})
    runs = [
        run(turn(), reward=-1.0, success=False),
        run(turn(), reward=0.5, success=False),
        run(turn(), reward=0.5, success=True),
        run(turn(), reward=0.5, success=None),
        run(turn(), reward=0.5, success=True, success_from_reward=True),
        run(turn(), reward=None, success=None),
    ]
    parts = [score.parts["outcome"] for score in by_success.score(runs)]
    assert parts == [0.0, 0.0, 1.0, 0.5, 0.5, None]


def test_the_total_is_the_weighted_sum_and_turns_are_too():
    terms = rewards({"component": "outcome"}, {"component": "step_cost", "weight": 0.2, "limit": 4})
    (reward,) = terms.score([run(turn(1.0), turn(0.0))])
    assert reward.total == pytest.approx(1 - 0.2 * 2 / 4)
    assert reward.parts == {"outcome": 1.0, "step_cost": -0.5}
    assert reward.turns == pytest.approx([1 - 0.05, -0.05])


def test_where_a_term_has_nothing_to_say_the_mean_of_the_tasks_others_counts():
    terms = rewards({"component": "outcome"}, {"component": "subgoals", "weight": 0.5})
    half, all_of_it = {"a": True, "b": False}, {"a": True, "b": True}
    other = replace(run(turn()), task=replace(TASK, key="other"))
    silent = [run(turn()), run(turn(), subgoals=half), run(turn(), subgoals=half), other]
    scores = terms.score([*silent, replace(other, info={"subgoals": all_of_it})])
    assert [reward.total for reward in scores] == [1.25, 1.25, 1.25, 1.5, 1.5]
    assert [reward.parts["subgoals"] for reward in scores] == [None, 0.5, 0.5, None, 1.0]
    metrics = metrics_of(scores)
    assert metrics["rewards/subgoals/missing"] == pytest.approx(0.4)
    assert metrics["rewards/subgoals/mean"] == pytest.approx(2 / 3)
    lonely, spoken = terms.score([other, run(turn(), subgoals=half)])
    assert (lonely.total, spoken.total) == (1.25, 1.25)  # nothing is known about its own task
    assert terms.score([run(turn())])[0].total == 1.0


def test_a_turn_has_the_subgoals_that_it_reached():
    first = turn(subgoals={"a": True, "b": False})
    second = turn(subgoals={"a": True, "b": True})
    (reward,) = rewards({"component": "subgoals", "weight": 1}).score(
        [run(first, second, subgoals={"a": True, "b": True})]
    )
    assert reward.turns == [0.5, 0.5]


def test_a_hard_rule_outweighs_any_number_of_soft_ones():
    soft, hard = turn(violations=[{"rule": "preview"}]), turn(violations=[{"rule": "delete", "hard": True}])
    scores = rewards({"component": "safety", "weight": 1}).score([run(turn()), run(soft, turn()), run(hard, turn())])
    assert [reward.total for reward in scores] == [0.0, -0.25, -1.0]
    assert scores[2].details == {"safety/violations": 1.0}


def test_a_call_that_cannot_be_carried_out_is_badly_formed():
    tools = [{"function": {"name": "find", "parameters": {"properties": {"name": {}}, "required": ["name"]}}}]
    arguments: list[Any] = [{"name": "x"}, '{"name": "x"}', "x", {}, {"name": "x", "size": 1}]
    steps = [
        Step([], {"role": "assistant", "tool_calls": [{"function": {"name": "find", "arguments": argument}}]})
        for argument in arguments
    ]
    unreadable = Step([], {"role": "assistant", "content": "<tool_call>"}, error="no JSON")
    trajectory = Trajectory(TASK, [*steps, unreadable], tools=tools)
    (reward,) = rewards({"component": "format", "weight": 1}).score([trajectory])
    assert reward.turns == [1, 1, 0, 0, 0, 0]
    assert reward.total == pytest.approx(2 / 6)


def test_a_warning_says_when_the_outcome_does_not_dominate(tmp_path: Path):
    config = RewardsConfig.from_json(
        {"terms": [{"component": "outcome"}, {"component": "learned_outcome", "path": "rm", "weight": 0.5}]}
    )
    assert config.warning.startswith("The outcome counts 1, but the other terms together can count 1")  # 0.5 · (1 - -1)
    tipping = {"terms": [{"component": "outcome"}, {"component": "format", "weight": 1}]}
    with EventLog(tmp_path / "events.jsonl") as events:
        rewards_for(RewardsConfig.from_json(tipping), tmp_path, events)
        rewards_for(RewardsConfig(), tmp_path, events)
    logged_events = [line.event for line in EventReader(tmp_path / "events.jsonl").new_events()]
    assert [type(event) for event in logged_events] == [Warned]


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ([], "terms"),
        ([{"component": "outcome"}, {"component": "outcome"}], "terms[1].name"),
        ([{"component": "applause"}], "terms[0].component"),
        ([{"component": "judge", "url": "host", "model": "m"}], "terms[0].url"),
        ([{"component": "learned_process"}], "terms[0].policy"),
    ],
)
def test_terms_that_cannot_be_are_named(terms: list[dict[str, Any]], field: str):
    with pytest.raises(InvalidConfig) as refused:
        RewardsConfig.from_json({"terms": terms})
    assert refused.value.problems[0].field == field
