"""One policy, one task, one episode."""

import asyncio
import contextlib
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from contract.configs import Budget
from contract.messages import Message
from contract.trajectory import Outcome, Step, Task, Trajectory
from trainer.environments.protocol import SUCCESS_FROM_REWARD, Environment, Score, Transition
from trainer.environments.replay import Replayed
from trainer.failures import RunFailure
from trainer.rollouts.policy import Agent, PolicyError, Turn

Answer = TypeVar("Answer")


Watcher = Callable[[list[Step], list[Message]], None]
"""Called after each step with the steps so far and the last observation."""


async def play(
    environment: Environment,
    task: Task,
    agent: Agent,
    budget: Budget,
    *,
    after: Replayed | None = None,
    watch: Watcher | None = None,
) -> Trajectory:
    """Play until the environment is done or a budget is spent. Always returns the trajectory.

    after: continue from the middle of an episode of this task; the step budget includes the earlier steps.
    The outcome's termination is done, max_steps, max_tokens, timeout, policy_error or environment_error.
    """
    tokens_left = budget.tokens
    world = environment if after is None else after.environment
    steps: list[Step] = [] if after is None else list(after.steps)
    context: list[Message] = []
    termination = failure = ""
    score: Score | None = None
    try:
        context = await ask_environment(world, partial(world.reset, task)) if after is None else after.context
        chat = list(context) if after is None else after.chat
        deadline = time.monotonic() + budget.seconds  # not before: it may have waited for its turn at a server
        while not (termination := spent(steps, budget, tokens_left, seconds_left=deadline - time.monotonic())):
            start = time.monotonic()
            try:
                async with asyncio.timeout(deadline - start):
                    turn = await agent.act(chat, world.tools, max_tokens=tokens_left)
            except TimeoutError:
                termination = "timeout"
                break
            except PolicyError as error:
                termination, failure = "policy_error", str(error)
                break
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    transition = await respond(world, turn)
            except (EnvironmentFailed, TimeoutError) as error:
                problem = "the environment did not answer in time" if isinstance(error, TimeoutError) else str(error)
                broken = Transition([], 0.0, False, {"error": problem})
                steps.append(step_of(context, turn, broken, seconds=time.monotonic() - start))
                context = []
                if isinstance(error, EnvironmentFailed):
                    raise
                termination = "timeout"
                break
            steps.append(step_of(context, turn, transition, seconds=time.monotonic() - start))
            tokens_left -= turn.completion_tokens or 0
            context = transition.observation
            chat = [*chat, turn.message, *context]
            if watch is not None:
                watch(steps, context)
        score = await ask_environment(world, world.score)
    except EnvironmentFailed as error:
        termination, failure = "environment_error", str(error)
    finally:
        world.close()
    return Trajectory(
        task=task,
        steps=steps,
        tools=world.tools,
        closing=context,
        outcome=Outcome(score.reward, score.success, termination) if score else Outcome(termination=termination),
        info=details_of(score) | ({termination: failure} if failure else {}),
    )


def details_of(score: Score | None) -> dict[str, Any]:
    """Details of the score for a trajectory's `info`."""
    if score is None:
        return {}
    return {"subgoals": score.subgoals, **({SUCCESS_FROM_REWARD: True} if score.is_success_from_reward else {})}


class EnvironmentFailed(Exception):
    """An environment raised an exception. The episode ends and is kept; others continue."""


async def ask_environment(environment: Environment, question: Callable[[], Answer]) -> Answer:
    """Call the environment without blocking other episodes. Raises EnvironmentFailed, RunFailure."""
    try:
        return await in_thread(question) if environment.waits else question()
    except RunFailure:
        raise
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise EnvironmentFailed(f"{type(error).__name__}: {error} ({frame.name}, line {frame.lineno})") from error


def spent(steps: list[Step], budget: Budget, tokens_left: int, *, seconds_left: float) -> str:
    """Why the episode is over, or "" if it isn't."""
    if steps and steps[-1].done:
        return "done"
    if len(steps) >= budget.steps:
        return "max_steps"
    if tokens_left <= 0:
        return "max_tokens"
    return "timeout" if seconds_left <= 0 else ""


async def in_thread(question: Callable[[], Answer]) -> Answer:
    """Run the function in a thread, which is abandoned on cancellation, unlike those of asyncio's pool: a
    cancelled run mustn't wait for an unresponsive server.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Answer] = loop.create_future()

    def settle(result: Answer | None, error: Exception | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast("Answer", result))

    def work() -> None:
        result, failed = None, None
        try:
            result = question()
        except Exception as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=work, daemon=True).start()
    return await future


async def respond(environment: Environment, turn: Turn) -> Transition:
    """The environment's response. An unparsable call isn't passed to it: the policy gets an error and may try again."""
    if turn.error is None:
        return await ask_environment(environment, partial(environment.step, turn.message))
    hint = {"role": "user", "content": f"Your tool call could not be read: {turn.error}. Please try again."}
    now = await ask_environment(environment, environment.score)
    info = {"error": turn.error, "unreadable": True, "subgoals": now.subgoals}
    return Transition(observation=[hint], reward=0.0, done=False, info=info)


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
