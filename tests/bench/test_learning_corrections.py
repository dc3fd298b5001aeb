"""Corrections: an expert's action at the first turn of a failed run that departs from the expert's way."""

from dataclasses import replace

from bench.learning.corrections import corrected, correction, expert_run
from contract.trajectory import Outcome, Step, Task, Trajectory
from trainer.environments import environment_named


def a_task() -> Task:
    return next(iter(environment_named("office").tasks(levels=("L2",), split="train", seed=0)))


def acted(step: Step, **arguments: str) -> Step:
    """The step with its call's id and these arguments changed."""
    call = step.message["tool_calls"][0]
    function = {**call["function"], "arguments": {**call["function"]["arguments"], **arguments}}
    return replace(step, message={**step.message, "tool_calls": [{**call, "id": "another", "function": function}]})


def failed(expert: Trajectory, turn: int, **arguments: str) -> Trajectory:
    """The expert's run with new call ids, up to and with a turn that has other arguments."""
    steps = [acted(step) for step in expert.steps[:turn]] + [acted(expert.steps[turn], **arguments)]
    return replace(expert, steps=steps, outcome=Outcome(0.0, success=False))


def test_the_first_departure_is_corrected_and_the_ids_of_calls_are_none() -> None:
    expert = expert_run(a_task())
    assert expert.outcome.success
    run = failed(expert, 1, name="Nobody")
    row = correction(run, expert)
    assert row is not None
    assert row["prompt"] == [*run.steps[0].context, run.steps[0].message, *run.steps[1].context]
    assert (row["chosen"], row["rejected"]) == ([expert.steps[1].message], [run.steps[1].message])
    assert not any(step.message.get("reasoning_content") for step in expert.steps)


def test_a_run_that_only_stops_early_has_nothing_to_correct() -> None:
    expert = expert_run(a_task())
    assert correction(replace(expert, steps=expert.steps[:1]), expert) is None


def test_the_same_correction_is_taken_once_and_a_task_gives_a_few() -> None:
    expert = expert_run(a_task())
    again = failed(expert, 1, name="Nobody")
    others = [failed(expert, 1, name=f"Nobody {number}") for number in range(3)]
    longer = replace(again, steps=[*again.steps, again.steps[-1]])
    rows = corrected([expert, again, longer, *others], per_task=3)
    rejected = [row["rejected"][0]["tool_calls"][0]["function"]["arguments"]["name"] for row in rows]
    assert rejected == ["Nobody", "Nobody 0", "Nobody 1"]
