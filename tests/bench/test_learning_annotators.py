"""Simulated annotators mostly prefer the better rollout, and report how many of them agreed."""

from bench.learning.annotators import preferences, progress, quality, success_first
from contract.trajectory import Outcome, Step, Task, Trajectory


def rollout(task: str, words: str, *, success: bool = False, reached: int = 0) -> Trajectory:
    """A rollout with one turn per word that reached `reached` of two sub-goals."""
    steps = [
        Step([{"role": "user", "content": "Go on."}], {"role": "assistant", "content": word}) for word in words.split()
    ]
    subgoals = {"first": reached > 0, "second": reached > 1}
    return Trajectory(Task(task, "Do it."), steps, outcome=Outcome(success=success), info={"subgoals": subgoals})


def test_success_counts_before_subgoals_and_they_before_short_rollouts():
    ranked = [
        rollout("t", "a b c", success=True),
        rollout("t", "a", reached=2),
        rollout("t", "a b", reached=1),
        rollout("t", "a b c", reached=1),
    ]
    assert sorted(ranked, key=quality, reverse=True) == ranked


def test_pairs_that_only_differ_in_length_or_in_how_they_fail_can_be_left_out():
    short, long, further = (
        rollout("t", "a", reached=1),
        rollout("t", "a b", reached=1),
        rollout("t", "a b c", reached=2),
    )
    assert progress(short) == progress(long) < progress(further)
    assert success_first(short) == success_first(further) < success_first(rollout("t", "a b c", success=True))
    for measure, count in ((quality, 3), (progress, 2), (success_first, 0)):
        assert len(preferences([short, long, further], per_task=5, seed=0, measure=measure)) == count


def test_the_majority_mostly_finds_the_better_one():
    rollouts = [
        trajectory
        for task in range(400)
        for trajectory in (rollout(str(task), "right", success=True), rollout(str(task), "wrong"))
    ]
    rows = preferences(rollouts, per_task=1, seed=0)
    right = sum(row["chosen"][-1]["content"] == "right" for row in rows)
    assert len(rows) == 400
    assert 360 <= right <= 395  # 94.6 % of 400 are 378, give or take four standard deviations
    assert {round(row["soft_label"], 2) for row in rows} == {0.67, 1.0}
    assert preferences(rollouts, per_task=1, seed=0) == rows


def test_equals_and_rollouts_without_a_turn_are_not_asked_about():
    equals = [rollout("t", "a"), rollout("t", "b")]
    assert preferences([*equals, rollout("t", "", success=True)], per_task=5, seed=0) == []
