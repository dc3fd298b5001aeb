"""One policy, one task, one episode."""

import asyncio
import time

from trainer.configs import Budget
from trainer.environments.protocol import Environment, Transition
from trainer.records import Message, Outcome, Step, Task, Trajectory
from trainer.rollouts.policy import Agent, PolicyError, Turn


async def play(environment: Environment, task: Task, agent: Agent, budget: Budget) -> Trajectory:
    """Play until the environment says done or a budget is spent. However it ends, what happened is returned.

    The outcome's termination is done, max_steps, max_tokens, timeout or policy_error.
    """
    steps: list[Step] = []
    deadline = time.monotonic() + budget.seconds
    tokens_left = budget.tokens
    context = environment.reset(task)
    chat: list[Message] = list(context)
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
        transition = react(environment, turn)
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


def react(environment: Environment, turn: Turn) -> Transition:
    """What the environment answers. A call that could not be read never reaches it: the policy is told and may try again."""
    if turn.error is None:
        return environment.step(turn.message)
    hint = {"role": "user", "content": f"Your tool call could not be read: {turn.error}. Please try again."}
    return Transition(observation=[hint], reward=0.0, done=False, info={"error": turn.error})


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
        info=turn.info,
    )
