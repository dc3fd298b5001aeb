"""One policy, one task, one episode."""

import asyncio
import time

from trainer.configs import Budget
from trainer.environments.protocol import Environment, Transition
from trainer.environments.replaying import Replayed
from trainer.records import Message, Outcome, Step, Task, Trajectory
from trainer.rollouts.policy import Agent, PolicyError, Turn


async def play(
    environment: Environment, task: Task, agent: Agent, budget: Budget, *, after: Replayed | None = None
) -> Trajectory:
    """Play until the environment says done or a budget is spent. However it ends, what happened is returned.

    after: go on from the middle of an episode of this task; the budget of steps counts those before it too.
    The outcome's termination is done, max_steps, max_tokens, timeout or policy_error.
    """
    deadline = time.monotonic() + budget.seconds
    tokens_left = budget.tokens
    if after is not None:
        environment = after.environment
    steps: list[Step] = [] if after is None else list(after.steps)
    context = environment.reset(task) if after is None else after.context
    chat: list[Message] = list(context) if after is None else after.chat
    failure = ""
    while not (termination := spent(steps, budget, tokens_left, seconds_left=deadline - time.monotonic())):
        began = time.monotonic()
        try:
            async with asyncio.timeout(deadline - began):
                turn = await agent.act(chat, environment.tools, max_tokens=tokens_left)
        except TimeoutError:
            termination = "timeout"
            break
        except PolicyError as error:
            termination, failure = "policy_error", str(error)
            break
        transition = await react(environment, turn)
        steps.append(step_of(context, turn, transition, seconds=time.monotonic() - began))
        tokens_left -= turn.completion_tokens or 0
        context = transition.observation
        chat = [*chat, turn.message, *context]
    score = environment.score()
    return Trajectory(
        task=task,
        steps=steps,
        tools=environment.tools,
        closing=context,
        outcome=Outcome(reward=score.reward, success=score.success, termination=termination),
        info={"subgoals": score.subgoals} | ({"policy_error": failure} if failure else {}),
    )


def spent(steps: list[Step], budget: Budget, tokens_left: int, *, seconds_left: float) -> str:
    """Why the episode is over, or "" while it is not."""
    if steps and steps[-1].done:
        return "done"
    if len(steps) >= budget.steps:
        return "max_steps"
    if tokens_left <= 0:
        return "max_tokens"
    return "timeout" if seconds_left <= 0 else ""


async def react(environment: Environment, turn: Turn) -> Transition:
    """What the environment answers. A call that could not be read never reaches it: the policy is told and may try again."""
    if turn.error is not None:
        hint = {"role": "user", "content": f"Your tool call could not be read: {turn.error}. Please try again."}
        info = {"error": turn.error, "unreadable": True, "subgoals": environment.score().subgoals}
        return Transition(observation=[hint], reward=0.0, done=False, info=info)
    if environment.waits:
        return await asyncio.to_thread(environment.step, turn.message)
    return environment.step(turn.message)


def step_of(context: list[Message], turn: Turn, transition: Transition, *, seconds: float) -> Step:
    return Step(
        context=context,
        message=turn.message,
        reward=transition.reward,
        done=transition.done,
        error=transition.info.get("error"),
        seconds=round(seconds, 4),
        prompt_tokens=turn.prompt_tokens,
        completion_tokens=turn.completion_tokens,
        info={**turn.info, **{key: value for key, value in transition.info.items() if key != "error"}},
    )
