"""Takes over in the middle of a recorded episode: samples a policy's actions there, or executes a given action and continues.

Sampling only needs the chat. Continuing needs the environment, which is brought to that turn by replay.
"""

import asyncio
import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from contract.configs import ContinuationConfig, RolloutConfig, ScriptedPolicy, TasksConfig
from contract.events import Progress, Started
from contract.messages import Message
from contract.trajectory import Outcome, Trajectory
from trainer.environments import environment_named
from trainer.environments.protocol import Transition
from trainer.environments.replay import Replayed, replayed_to
from trainer.events import EventLog, memory_in_use_mb
from trainer.failures import Cancelled, ConfigFailure, DataFailure, ServerDied
from trainer.interruption import StopRequest
from trainer.records import read_trajectories
from trainer.rollouts.episode import EnvironmentFailed, ask_environment, play, respond, step_of
from trainer.rollouts.output import TrajectoryFile
from trainer.rollouts.policy import Policy, PolicyError, ServerAway, Turn
from trainer.rollouts.runner import make_policy, with_tool_format


def run_continuation(config: ContinuationConfig, folder: Path, events: EventLog, stop: StopRequest) -> dict[str, Any]:
    """Run it and overwrite the output file. Returns the report. Raises Cancelled, RunFailure."""
    return asyncio.run(_watched(config, folder, events, stop))


async def _watched(config: ContinuationConfig, folder: Path, events: EventLog, stop: StopRequest) -> dict[str, Any]:
    if isinstance(config.policy, ScriptedPolicy):
        raise ConfigFailure(
            "policy.engine: a script plays an episode from its beginning and cannot take over in the middle.",
            advice="Choose a language model or a served model.",
        )
    recorded = one_trajectory(folder / config.file)
    if config.step >= len(recorded.steps):
        raise DataFailure(f"There is no turn {config.step}: the trajectory has {len(recorded.steps)} turns.")
    rollout = RolloutConfig(
        policy=config.policy, tasks=TasksConfig(environment=recorded.task.environment), parallel=config.count
    )
    policy = with_tool_format(config.policy, make_policy(rollout, folder, stop))
    total = config.count if config.action is None else 1
    events.emit(Started(total_steps=total, memory_mb=memory_in_use_mb(), pid=os.getpid()))
    work = (
        sample(config, folder, recorded, policy, events)
        if config.action is None
        else continue_recorded(config, folder, recorded, policy)
    )
    task = asyncio.create_task(work)
    try:
        while not task.done():
            if stop.requested:
                task.cancel()
                raise Cancelled(config.output)
            await asyncio.wait([task], timeout=0.05)
        report = await task
    except ServerAway as away:  # an annotator is waiting, so don't wait for a server
        raise ServerDied(f"The server died: {away}.", advice="Try again once it runs.") from None
    except asyncio.CancelledError:  # the engine drops waiting requests when a stop is requested
        if stop.requested:
            raise Cancelled(config.output) from None
        raise
    finally:
        await policy.close()
    events.emit(Progress(step=total, total=total))
    return {"policy": policy.name, **report}


def one_trajectory(path: Path) -> Trajectory:
    """The first trajectory of a file. Raises DataFailure."""
    for trajectory in read_trajectories(path):
        return trajectory
    raise DataFailure(f"{path.name} holds no trajectory.")


async def sample(
    config: ContinuationConfig, folder: Path, recorded: Trajectory, policy: Policy, events: EventLog
) -> dict[str, Any]:
    """Sample the policy's action at this turn `count` times: one line {"message", "error"} each, as they finish."""
    chat = [message for step in recorded.steps[: config.step] for message in (*step.context, step.message)]
    chat += recorded.steps[config.step].context
    done = 0
    with (folder / config.output).open("w", encoding="utf-8", errors="backslashreplace") as output:

        async def one(number: int) -> None:
            nonlocal done
            agent = policy.begin(recorded.task, config.seed + number)
            try:
                turn = await agent.act(chat, recorded.tools, max_tokens=config.budget.tokens)
            except PolicyError as error:
                turn = Turn({"role": "assistant", "content": ""}, error=str(error))
            output.write(json.dumps({"message": turn.message, "error": turn.error}, ensure_ascii=False) + "\n")
            output.flush()
            done += 1
            events.emit(Progress(step=done, total=config.count))

        await asyncio.gather(*(one(number) for number in range(config.count)))
    return {"sampled": done}


async def continue_recorded(
    config: ContinuationConfig, folder: Path, recorded: Trajectory, policy: Policy
) -> dict[str, Any]:
    """Execute the given action at this turn, and let the policy continue: one trajectory. Raises Diverged, DataFailure.

    If the action breaks the environment, the trajectory ends with it. If the turns before it do, there is no trajectory.
    """
    assert config.action is not None
    action: Message = json.loads((folder / config.action).read_text(encoding="utf-8"))
    environment = environment_named(recorded.task.environment)()
    try:
        before = await ask_environment(
            environment, partial(replayed_to, recorded, config.step, environment=environment)
        )
    except EnvironmentFailed as error:
        environment.close()
        raise DataFailure(
            f"The environment failed while the turns before the action were replayed: {error}.",
            advice="Repair the environment, then ask for the continuation again.",
        ) from error
    turn = Turn(action)
    try:
        transition = await respond(environment, turn)
    except EnvironmentFailed as error:
        environment.close()
        last_step = step_of(before.context, turn, Transition([], 0.0, False, {"error": str(error)}), seconds=0.0)
        outcome = Outcome(termination="environment_error")
        steps, tools, info = [*before.steps, last_step], environment.tools, {outcome.termination: str(error)}
        played = Trajectory(task=recorded.task, steps=steps, tools=tools, outcome=outcome, info=info)
    else:
        first_step = step_of(before.context, turn, transition, seconds=0.0)
        after = Replayed(environment, [*before.steps, first_step], transition.observation)
        agent = policy.begin(recorded.task, config.seed)
        played = await play(environment, recorded.task, agent, config.budget, after=after)
    (folder / config.output).unlink(missing_ok=True)
    output = TrajectoryFile(folder / config.output)
    output.append(replace(played, id=f"{recorded.id}@{config.step}", policy=policy.name))
    output.close()
    return {"steps": len(played.steps), "success": played.outcome.success, "termination": played.outcome.termination}
