"""Taking over in the middle of an episode."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from contract.configs import Budget, ContinuationConfig, ScriptedPolicy
from contract.messages import Message
from contract.trajectory import Outcome, Step, Trajectory
from trainer.environments import ENVIRONMENTS
from trainer.environments.office import Office
from trainer.environments.protocol import Transition
from trainer.failures import DataFailure
from trainer.records import read_trajectories
from trainer.rollouts.continuation import continue_recorded


class Broken(Office):
    """An office environment with a bug: a tool raises an unexpected exception."""

    def step(self, action: Message) -> Transition:
        raise KeyError("desk")


async def test_an_environment_that_a_corrected_action_breaks_ends_the_branch_and_not_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = next(iter(Office.tasks(levels=("L1",), split="train", seed=0)))
    office = Office()
    action: Message = {"role": "assistant", "content": "Done."}
    recorded = Trajectory(task, [], closing=office.reset(task), tools=office.tools, id="r1")
    (tmp_path / "action.json").write_text(json.dumps(action))
    monkeypatch.setitem(ENVIRONMENTS, task.environment, Broken)
    config = ContinuationConfig(policy=ScriptedPolicy(script="expert"), action="action.json", budget=Budget())
    policy = cast("Any", SimpleNamespace(name="clerk"))

    report = await continue_recorded(config, tmp_path, recorded, policy)

    assert report == {"steps": 1, "success": None, "termination": "environment_error"}
    [branch] = read_trajectories(tmp_path / config.output)
    assert (branch.id, branch.policy, branch.steps[0].message) == ("r1@0", "clerk", action)
    assert branch.outcome == Outcome(termination="environment_error")
    assert branch.steps[0].error == branch.info["environment_error"]
    assert branch.steps[0].error.startswith("KeyError: 'desk' (step, line ")


async def test_an_environment_that_breaks_during_the_replay_is_named_as_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = next(iter(Office.tasks(levels=("L1",), split="train", seed=0)))
    office = Office()
    action: Message = {"role": "assistant", "content": "Done."}
    recorded = Trajectory(task, [Step(office.reset(task), action)], tools=office.tools, id="r1")
    (tmp_path / "action.json").write_text(json.dumps(action))
    monkeypatch.setitem(ENVIRONMENTS, task.environment, Broken)
    config = ContinuationConfig(policy=ScriptedPolicy(script="expert"), step=1, action="action.json")
    with pytest.raises(DataFailure, match=r"environment failed while .* were replayed: KeyError: 'desk'"):
        await continue_recorded(config, tmp_path, recorded, cast("Any", SimpleNamespace(name="clerk")))
