"""Known failure modes of training, detected before they cost the whole run. Pure.

A rule compares the mean of the last measurements with the first ones, so that a single odd batch raises no alarm. A rule whose metrics are
missing never fires.
"""

import math
from collections.abc import Callable
from statistics import fmean, median
from typing import Literal, NamedTuple

from trainer.alarms.curves import FALL_FROM_BEST, FALL_FROM_FIRST, RISE, SUDDEN, WINDOW, Curves

AlarmName = Literal[
    "not_a_number",
    "echo_trap",
    "reward_hacking",
    "kl_blow_up",
    "length_gaming",
    "dead_groups",
    "rising_entropy",
    "cut_off_turns",
    "standstill",
    "chosen_falls",
]


SHORT = 4
"""Window of a mean where ten measurements would be too late."""
GROWN_ENTROPY = 1.6
"""Multiple of its initial value."""
MIN_ENTROPY = 0.05
"""Nats per token. A smaller initial entropy counts as this much: several times almost nothing isn't noise yet."""
GROWN_LENGTH = 1.5
"""Multiple of its initial value."""
STILL = 0.02
"""Change of success: one task in sixty."""
CORRECTED = (
    "Judgments of these rollouts would correct the reward model; a KL penalty keeps the policy where it is right."
)


class Finding(NamedTuple):
    """What a rule detected, and what to do about it."""

    message: str
    advice: str


Rule = Callable[[Curves], Finding | None]


def not_a_number(curves: Curves) -> Finding | None:
    """The loss or the reward is NaN or infinite; from this step on, the weights are useless."""
    for name in ("loss", "reward", "eval/loss"):
        if curves.has(name) and not math.isfinite(curves.newest(name)):
            return Finding(
                f"{name} is no longer a number.",
                "Look for broken rows; steps that are too large also cause this.",
            )
    return None


def echo_trap(curves: Curves) -> Finding | None:
    """RAGEN (Wang et al., 2025, arXiv 2504.20073, section 4.2): the policy collapses into one pattern. The standard deviation of rewards and the entropy
    collapse first, while the reward still looks fine; then it falls too. If rewards have risen, the fall of both is healthy.
    """
    if not curves.has("reward_std", 2 * WINDOW) or not curves.has("entropy", 2 * WINDOW) or curves.mastered:
        return None
    spread, entropy = (curves.last(name) / max(1e-9, curves.first(name)) for name in ("reward_std", "entropy"))
    has_risen = curves.last("reward") > curves.first("reward") + 0.5 * curves.first("reward_std")
    if spread > 0.5 or entropy > 0.5 or has_risen:
        return None
    return Finding(
        f"Echo Trap: the spread of rewards fell to {spread:.0%} and the entropy to {entropy:.0%} of where they began, and the "
        "reward has not risen.",
        "Groups without variance can be exchanged for others, so that every one teaches something.",
    )


def reward_hacking(curves: Curves) -> Finding | None:
    """Overoptimization (Gao, Schulman & Hilton, 2022, arXiv 2210.10760): the proxy keeps rising while the true objective falls."""
    return fall_from_best(curves) or fall_from_start(curves)


def fall_from_best(curves: Curves) -> Finding | None:
    """Success fell by more than chance, usually from its best, while the reward rose."""
    proxies = [name for name in curves.learned if curves.has(name, 2 * WINDOW)] or ["reward"]
    fall = fall_of_success(curves)
    if fall is None or not curves.has(proxies[0], 2 * WINDOW):
        return None
    evaluations = len(curves.values["eval/success"])
    for name in proxies:
        values = curves.values[name]
        at_best = round(fall.since / evaluations * len(values))
        before = values[max(0, at_best - WINDOW) : at_best] or values[:1]
        risen = curves.last(name) - fmean(before)
        if risen > 0.25 * max(
            1e-6, curves.first(deviation_of(name)) if curves.has(deviation_of(name)) else abs(fmean(before))
        ):
            return Finding(
                f"Reward hacking: {name} has risen by {risen:.2g} while success on held-out tasks fell by {100 * fall.size:.0f} points.",
                CORRECTED,
            )
    return None


def fall_from_start(curves: Curves) -> Finding | None:
    """The policy never improved: each evaluation has a higher learned reward than the one before, and success is lower than before training."""
    success = curves.values.get("eval/success", [])
    for name in curves.learned:
        scores = curves.values.get(f"eval/{name}", [])
        if not len(success) == len(scores) >= 4 or sorted(scores) != scores:
            continue
        risen, fallen = scores[-1] - scores[0], success[0] - fmean(success[-3:])
        if fallen >= RISE and risen > 0.25 * curves.first(f"eval/{deviation_of(name)}", 1):
            return Finding(
                f"Reward hacking: on held-out tasks, {name} has risen by {risen:.2g} since training began, while success fell by {100 * fallen:.0f} points.",
                CORRECTED,
            )
    return None


class Fall(NamedTuple):
    """A fall of held-out success."""

    size: float
    since: int
    """Number of evaluations before it."""


def fall_of_success(curves: Curves) -> Fall | None:
    """How far held-out success has fallen, if that isn't chance: at once between two evaluations, or on average over three."""
    success = curves.values.get("eval/success", [])
    tasks = curves.newest("eval/rollouts_scored")
    if len(success) > 1 and tasks > 0:
        best, newest = max(success), success[-1]
        error = math.sqrt((best * (1 - best) + newest * (1 - newest)) / tasks)
        if best - newest > SUDDEN * error:
            return Fall(best - newest, success.index(best) + 1)
    if len(success) < 5:
        return None
    means = [fmean(success[index : index + 3]) for index in range(len(success) - 2)]
    best_mean = max(means)
    if best_mean - means[-1] >= FALL_FROM_BEST:
        return Fall(best_mean - means[-1], means.index(best_mean) + 2)
    if (
        success[0] - means[-1] >= FALL_FROM_FIRST
    ):  # a policy ruined by the first steps doesn't have three good evaluations
        return Fall(success[0] - means[-1], 0)
    return None


def deviation_of(name: str) -> str:
    """The metric with a reward's standard deviation."""
    return "reward_std" if name == "reward" else name.removesuffix("/mean") + "/std"


def kl_blow_up(curves: Curves) -> Finding | None:
    """The policy drifts from its base (Ziegler et al., 2019, arXiv 1909.08593, section 2.2, on controlling the KL): a jump, or a large value."""
    values = [value for value in curves.values.get("kl", []) if math.isfinite(value)]
    if len(values) < WINDOW or not curves.has(
        "reward"
    ):  # KTO's is summed over whole completions, where ten nats is normal
        return None
    current, baseline = fmean(values[-3:]), median(values[-WINDOW - 3 : -3] or values[:1])
    jumped = current > 0.1 and current > 5 * max(baseline, 1e-3)
    if not jumped and current < 1.0:
        return None
    how = f"jumped from {baseline:.2g} to {current:.2g}" if jumped else f"is {current:.2g}"
    return Finding(
        f"KL blow-up: the divergence from the base {how} nats a token.",
        "A larger KL penalty keeps it closer to its base.",
    )


def length_gaming(curves: Curves) -> Finding | None:
    """Reward from length (Singhal et al., 2023, arXiv 2310.03716): rollouts grow, the reward with them, and success does not."""
    length = "completions/mean_length"
    success = "eval/success" if curves.has("eval/success", 4) else "success"
    least = 4 if success == "eval/success" else 2 * WINDOW
    if not curves.has(length, 2 * WINDOW) or not curves.has(success, least) or not curves.has("reward_std"):
        return None
    width = 2 if success == "eval/success" else WINDOW
    grown = growth(curves)
    gained = curves.last(success, width) - curves.first(success, width)
    risen = curves.last("reward") - curves.first("reward") > 0.25 * curves.first("reward_std")
    if grown < GROWN_LENGTH or gained > 0.02 or not risen:
        return None
    return Finding(
        f"Length gaming: rollouts are {grown:.1f} times as long as at the beginning and the reward has risen, but success has not.",
        "A smaller budget leaves less to gain by length.",
    )


def growth(curves: Curves) -> float:
    """Length of rollouts relative to the first ones; 1 if not measured."""
    length = "completions/mean_length"
    return curves.last(length) / max(1e-9, curves.first(length)) if curves.has(length) else 1.0


def dead_groups(curves: Curves) -> Finding | None:
    """Groups whose rollouts all got the same reward have no gradient (DAPO, Yu et al., 2025, arXiv 2503.14476, section 3.2)."""
    name = "frac_reward_zero_std"
    if not curves.has(name, WINDOW) or curves.mastered:
        return None
    share = curves.last(name)
    if share < 0.8:
        return None
    return Finding(
        f"Dead groups: in {share:.0%} of the groups all rollouts get the same reward, so they teach nothing.",
        "Choose tasks that the policy sometimes solves, or let such groups be exchanged for others.",
    )


def is_healthy(curves: Curves) -> bool:
    """Whether apparent noise is harmless: success rises, is high, or may turn out to have risen at the first evaluation after training started."""
    return curves.improves or curves.mastered or curves.awaits_evaluation


def rising_entropy(curves: Curves) -> Finding | None:
    """The policy becomes less certain of every token without getting better: it learns noise (Cui et al., 2025, arXiv 2505.22617, describe
    entropy being spent in training; here it's gained).
    """
    name = "entropy"
    if not curves.has(name, 2 * SHORT) or not curves.has("reward") or is_healthy(curves):
        return None
    first, last = curves.first(name, SHORT), curves.last(name, SHORT)
    if last < GROWN_ENTROPY * max(first, MIN_ENTROPY):
        return None
    return Finding(
        f"Rising entropy: it grew from {first:.2g} to {last:.2g} nats a token, and success on held-out tasks has not risen.",
        "Steps that are too large for so few rollouts teach noise.",
    )


def cut_off_turns(curves: Curves) -> Finding | None:
    """More and more rollouts end in a turn that the token limit cut off (DAPO, Yu et al., 2025, arXiv 2503.14476, section 3.4). Such rollouts
    are long, so they dominate the loss, and what they teach isn't the task.
    """
    name = "completions/clipped_ratio"
    if not curves.has(name, 2 * SHORT) or is_healthy(curves):
        return None
    first, last = curves.first(name, SHORT), curves.last(name, SHORT)
    if last < 0.15 or last - first < 0.1:
        return None
    return Finding(
        f"Cut-off turns: {last:.0%} of the rollouts end in a turn that the token limit cut off; at first {first:.0%} did.",
        "Such rollouts are the longest, so they outweigh the others in the loss.",
    )


def standstill(curves: Curves) -> Finding | None:
    """Held-out success stays flat while the training reward moves: what is learned doesn't generalize to other tasks."""
    success, rewards = (curves.values.get(name, []) for name in ("eval/success", "reward"))
    if len(success) < 6 or len(rewards) < 2 * SHORT or not curves.has("reward_std") or curves.mastered:
        return None
    if max(success) - fmean(success[-3:]) >= FALL_FROM_BEST or growth(curves) >= GROWN_LENGTH:  # left to other alarms
        return None
    gained = fmean(success[-3:]) - fmean(success[-6:-3])
    width = max(SHORT, round(3 * len(rewards) / (len(success) - 1)))  # covering three evaluations
    moved = fmean(rewards[-width:]) - fmean(rewards[-2 * width : -width])
    if gained > STILL or moved < 0.25 * curves.first("reward_std"):
        return None
    return Finding(
        f"Standstill: the training reward has risen by {moved:.2g}, and success on held-out tasks has stayed at {success[-1]:.0%} for six evaluations.",
        "The policy moves away from its base without getting better at other tasks.",
    )


def chosen_falls(curves: Curves) -> Finding | None:
    """DPO widens the margin by making both sides unlikely (Pal et al., 2024, arXiv 2402.13228; Pang et al., 2024, arXiv 2404.19733, section 4,
    on the likelihood term that prevents it).
    """
    chosen, margin = "rewards/chosen", "rewards/margins"
    if not curves.has(chosen, WINDOW) or not curves.has(margin, WINDOW):
        return None
    fell, grown = -curves.last(chosen), curves.last(margin)
    if grown < 0.05 or fell < 0.25 * grown or fell <= -curves.first(chosen, SHORT):
        return None
    return Finding(
        f"Falling chosen side: the policy likes the preferred sides less than its base does (implicit reward {-fell:.2g}), while the margin is {grown:.2g}.",
        "The likelihood that both sides lose goes to answers that nobody preferred.",
    )


RULES: dict[AlarmName, Rule] = {
    "not_a_number": not_a_number,
    "echo_trap": echo_trap,
    "reward_hacking": reward_hacking,
    "kl_blow_up": kl_blow_up,
    "length_gaming": length_gaming,
    "dead_groups": dead_groups,
    "rising_entropy": rising_entropy,
    "cut_off_turns": cut_off_turns,
    "standstill": standstill,
    "chosen_falls": chosen_falls,
}
