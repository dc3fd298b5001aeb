"""An episode can be resumed at any of its turns; otherwise this is refused."""

import asyncio
from dataclasses import replace
from itertools import islice

import pytest

from contract.configs import Budget, ScriptedPolicy
from contract.messages import Message, ToolSchema
from contract.trajectory import Trajectory
from trainer.environments.office import Office
from trainer.environments.replay import Diverged, replayed_to
from trainer.failures import DataFailure
from trainer.rollouts.episode import play
from trainer.rollouts.policy import Turn
from trainer.rollouts.scripted import ScriptedEngine

TASK = next(islice(Office.tasks(levels=("L3",), split="train", seed=0), 1))


def expert() -> Trajectory:
    agent = ScriptedEngine(ScriptedPolicy(script="expert"), Office).begin(TASK, 0)
    return asyncio.run(play(Office(), TASK, agent, Budget()))


class Recorded:
    """Acts as in a trajectory; None stands for an unreadable turn."""

    def __init__(self, messages: list[Message | None]) -> None:
        self.messages = iter(messages)

    async def act(self, chat: list[Message], tools: list[ToolSchema], *, max_tokens: int) -> Turn:
        message = next(self.messages)
        return (
            Turn({"role": "assistant", "content": "<tool_call>{"}, error="no JSON")
            if message is None
            else Turn(message)
        )


def test_every_turn_says_which_subgoals_are_reached():
    trajectory = expert()
    reached = [sum(step.info["subgoals"].values()) for step in trajectory.steps]
    assert reached[0] == 0
    assert reached == sorted(reached)
    assert trajectory.steps[-1].info["subgoals"] == trajectory.info["subgoals"]
    assert all(trajectory.info["subgoals"].values())


def test_each_turn_can_be_returned_to_and_gone_on_from():
    trajectory = expert()
    for turn in range(len(trajectory.steps) + 1):
        replayed = replayed_to(trajectory, turn)
        assert replayed.chat == trajectory.messages()[: len(replayed.chat)]
        rest = Recorded([step.message for step in trajectory.steps[turn:]])
        again = asyncio.run(play(replayed.environment, TASK, rest, Budget(), after=replayed))
        assert again.messages() == trajectory.messages()
        assert again.outcome == trajectory.outcome


def test_the_past_is_not_changed_by_another_future():
    trajectory = expert()
    replayed = replayed_to(trajectory, 2)
    stops = Recorded([{"role": "assistant", "content": "Done."}])
    branch = asyncio.run(play(replayed.environment, TASK, stops, Budget(), after=replayed))
    assert branch.steps[:2] == trajectory.steps[:2]
    assert (len(branch.steps), branch.outcome.success) == (3, False)
    assert replayed_to(trajectory, 2).environment.score().subgoals != trajectory.info["subgoals"]


def test_a_call_that_could_not_be_read_is_passed_over():
    trajectory = expert()
    stumbles = Recorded([None, *(step.message for step in trajectory.steps)])
    stumbled = asyncio.run(play(Office(), TASK, stumbles, Budget()))
    assert stumbled.outcome == trajectory.outcome
    assert replayed_to(stumbled, len(stumbled.steps)).environment.score().success


def test_an_edited_observation_is_refused():
    trajectory = expert()
    (result,) = trajectory.steps[1].context
    edited = replace(trajectory.steps[1], context=[{**result, "content": "[]"}])
    changed = replace(trajectory, steps=[trajectory.steps[0], edited, *trajectory.steps[2:]])
    assert replayed_to(changed, 0).steps == []
    with pytest.raises(Diverged, match=r"before turn 1: .* recorded is '\[\]'"):
        replayed_to(changed, 2)


def test_a_missing_observation_is_refused():
    trajectory = expert()
    silent = replace(trajectory, steps=[trajectory.steps[0], replace(trajectory.steps[1], context=[])])
    with pytest.raises(Diverged, match="the environment answers 1 messages, recorded is 0"):
        replayed_to(silent, 1)


def test_a_turn_that_is_not_there_is_refused():
    with pytest.raises(DataFailure, match="There is no turn 99"):
        replayed_to(expert(), 99)
