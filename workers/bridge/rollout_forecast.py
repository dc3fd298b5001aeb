"""How long a run will take that learns from its own rollouts: a range, and what it rests on.

How long rollouts take depends on what the policy does, which nobody knows before. Earlier runs tell most; without them it is arithmetic on the
budget of a rollout, which a policy may use up or hardly touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from apps.common.quantities import duration
from apps.training.pace import Pace, Range
from contract.configs import OnlineConfig
from workers.bridge.estimates import STEP_SECONDS, ModelFacts

TENTHS = 10
"""The trainer evaluates before, at each tenth, and after, unless told otherwise."""
LAYER_SECONDS = 0.001
"""Of one layer in one pass for one more token of each chat, where that is not its arithmetic: the same on a CPU and a GPU, which wait for Python."""
OPENING_TOKENS = 512
"""A task, the tools and the rules, as the policy reads them first."""
LEAST_USED = 0.1
"""Share of its budget of tokens that a rollout uses at least; at most it is all of it."""


class Forecast(NamedTuple):
    """What training will take, in seconds, and in words what that rests on, or why nobody knows."""

    low: float | None
    high: float | None
    words: str = ""


def unknown(why: str) -> Forecast:
    return Forecast(None, None, why)


def from_paces(config: OnlineConfig, paces: Sequence[Pace]) -> Forecast:
    """From earlier runs, of which there is one at least.

    Where a step has more rollouts now, or a rollout more tokens, the time lies between no longer and so many times longer: chats are answered in
    batches, and a policy need not use what it may.
    """
    steps, evaluations = steps_of(config), evaluations_of(config)
    ranges = []
    for pace in paces:
        longer = most_tokens_of(config) / pace.most_tokens
        step = stretched(pace.step, rollouts_of(config) / pace.rollouts, longer)
        evaluation = stretched(pace.playing, config.held_out / pace.rollouts, longer)
        ends = zip(step, evaluation, strict=True)
        ranges.append(Range(*(steps * a_step + evaluations * an_evaluation for a_step, an_evaluation in ends)))
    names = ", ".join(pace.run for pace in paces)
    usual = Range(min(pace.step.low for pace in paces), max(pace.step.high for pace in paces))
    alike = all((pace.rollouts, pace.most_tokens) == (rollouts_of(config), most_tokens_of(config)) for pace in paces)
    words = f"from {names} here, where a step took {span(usual)}"
    words += "" if alike else " with other numbers of rollouts or tokens"
    return Forecast(min(each.low for each in ranges), max(each.high for each in ranges), words)


def from_shape(config: OnlineConfig, facts: ModelFacts, tflops: float) -> Forecast:
    """From the size of the model and what the device does: tflops is 10¹² operations a second that it really does."""
    low, high = (_calculated(config, facts, tflops, used) for used in (LEAST_USED, 1.0))
    most = f"{config.budget.steps} turns of {config.sampling.max_new_tokens} tokens"
    return Forecast(
        low, high, f"calculated: no run here was like it yet. Rollouts may use from a tenth to all of {most}"
    )


def _calculated(config: OnlineConfig, facts: ModelFacts, tflops: float, used: float) -> float:
    """Where every rollout uses that share of its turns, each as long as may be."""
    turns = max(1.0, used * config.budget.steps)
    written = turns * config.sampling.max_new_tokens
    read = turns * OPENING_TOKENS + written * turns / 2  # each turn reads the chat so far anew
    operations = 2 * facts.parameters * (read + written)
    waiting = written * facts.layers * LAYER_SECONDS  # of all chats of a batch together
    steps, evaluations = steps_of(config), evaluations_of(config)
    rollouts = steps * rollouts_of(config) + evaluations * config.held_out
    backward = 2 if config.lora else 4
    recomputed = 2 if config.optimizer.gradient_checkpointing else 0
    reference = 2 if config.beta else 0
    learning = (
        steps
        * rollouts_of(config)
        * (OPENING_TOKENS + written)
        * facts.parameters
        * (2 + backward + recomputed + reference)
    )
    return (steps + evaluations) * waiting + steps * STEP_SECONDS + (rollouts * operations + learning) / (tflops * 1e12)


def stretched(seconds: Range, *factors: float) -> Range:
    """The range with each factor taken for anything from no effect to its full one."""
    low, high = seconds
    for factor in factors:
        low, high = low * min(1.0, factor), high * max(1.0, factor)
    return Range(low, high)


def rollouts_of(config: OnlineConfig) -> int:
    """A step, on one device."""
    return config.optimizer.batch_size * config.optimizer.gradient_accumulation


def most_tokens_of(config: OnlineConfig) -> int:
    """That one rollout may write."""
    return config.budget.steps * config.sampling.max_new_tokens


def steps_of(config: OnlineConfig) -> int:
    """Optimizer steps of the whole run, on one device."""
    return config.steps(config.tasks.count * config.samples)


def evaluations_of(config: OnlineConfig) -> int:
    """Of the whole run, the one before the first step included; 0 where nothing is held out."""
    if not config.held_out:
        return 0
    steps = steps_of(config)
    return 1 + steps // (config.evaluate_every or max(1, steps // TENTHS))


def span(seconds: Range) -> str:
    """In words: "41 s to 1 min 3 s"; one figure where both ends read the same."""
    low, high = duration(seconds.low), duration(seconds.high)
    return low if low == high else f"{low} to {high}"
