"""Alarms over a run's curves: known ways in which training goes wrong, each seen before it has cost the whole run. Pure.

`Watch` is fed each step's metrics under TRL's names and says which alarms rise, each once; `learned` names the rewards that are a model's opinion. A rule compares the mean of the last WINDOW
measurements with the first ones, so that a single odd batch raises nothing; what a rule needs and was not measured keeps it silent.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Literal, NamedTuple

AlarmName = Literal["not_a_number", "echo_trap", "reward_hacking", "kl_blow_up", "length_gaming", "dead_groups"]

WINDOW = 10
"""Measurements that a mean is over."""
MASTERED = 0.85
"""Above this share of successes groups are alike and entropy is low because the tasks are solved."""
FALL_FROM_BEST = 0.16
"""Of success, between means of three evaluations: three times the standard error of the difference, with 60 tasks an evaluation."""
FALL_FROM_FIRST = 0.22
"""The same from the evaluation before training, which is only one."""


class Alarm(NamedTuple):
    """Something known to end badly has begun."""

    name: AlarmName
    step: int
    message: str
    advice: str


class Finding(NamedTuple):
    """What a rule saw, and what to do about it."""

    message: str
    advice: str


@dataclass
class Curves:
    """Everything that was measured so far, by name, in order."""

    values: dict[str, list[float]] = field(default_factory=dict)
    learned: Sequence[str] = ()
    """Rewards that are a model's opinion, and so can be gamed; where there is none the whole reward is looked at."""

    def add(self, values: Mapping[str, float | None]) -> None:
        for name, value in values.items():
            self.values.setdefault(name, []).append(math.nan if value is None else value)

    def known(self, name: str, least: int = 1) -> bool:
        return len(self.values.get(name, ())) >= least

    def newest(self, name: str) -> float:
        return self.values[name][-1] if self.known(name) else 0.0

    def first(self, name: str, count: int = WINDOW) -> float:
        return fmean(self.values[name][:count])

    def last(self, name: str, count: int = WINDOW) -> float:
        return fmean(self.values[name][-count:])

    @property
    def mastered(self) -> bool:
        return any(self.known(name) and self.last(name, 2) >= MASTERED for name in ("eval/success", "success"))


Rule = Callable[[Curves], Finding | None]


def not_a_number(curves: Curves) -> Finding | None:
    """The loss or the reward is no number any more; from there on every weight is lost."""
    for name in ("loss", "reward", "eval/loss"):
        if curves.known(name) and not math.isfinite(curves.newest(name)):
            return Finding(
                f"{name} is no number any more.",
                "Resume from the last checkpoint with a lower learning rate or gradient clipping, and look for broken rows.",
            )
    return None


def echo_trap(curves: Curves) -> Finding | None:
    """RAGEN (Wang et al., 2025, arXiv 2504.20073, section 4.2): the policy falls into one pattern. The spread of rewards and the entropy
    collapse first, while the reward still looks well; then it falls too. Where rewards have risen, both fall in good health.
    """
    if not curves.known("reward_std", 2 * WINDOW) or not curves.known("entropy", 2 * WINDOW) or curves.mastered:
        return None
    spread, entropy = (curves.last(name) / max(1e-9, curves.first(name)) for name in ("reward_std", "entropy"))
    has_risen = curves.last("reward") > curves.first("reward") + 0.5 * curves.first("reward_std")
    if spread > 0.5 or entropy > 0.5 or has_risen:
        return None
    return Finding(
        f"Echo Trap: the spread of rewards fell to {spread:.0%} and the entropy to {entropy:.0%} of where they began, and the "
        "reward has not risen.",
        "Go back to a checkpoint before the fall. Filter out groups without variance, raise epsilon_high or the temperature, or "
        "practice on more varied tasks.",
    )


def reward_hacking(curves: Curves) -> Finding | None:
    """Overoptimization (Gao, Schulman & Hilton, 2022, arXiv 2210.10760): the proxy goes on rising while what it stands for falls."""
    success = curves.values.get("eval/success", [])
    proxies = [name for name in curves.learned if curves.known(name, 2 * WINDOW)] or ["reward"]
    if len(success) < 5 or not curves.known(proxies[0], 2 * WINDOW):
        return None
    means = [fmean(success[index : index + 3]) for index in range(len(success) - 2)]
    best = max(range(len(means)), key=lambda index: means[index])
    fell, since = means[best] - means[-1], best + 2
    if fell < FALL_FROM_BEST:  # a policy that is spoiled by the first steps has no three good evaluations
        fell, since = success[0] - means[-1], 0
        if fell < FALL_FROM_FIRST:
            return None
    for name in proxies:
        values = curves.values[name]
        at_best = round(since / len(success) * len(values))
        before = values[max(0, at_best - WINDOW) : at_best] or values[:1]
        risen = curves.last(name) - fmean(before)
        if risen > 0.25 * max(
            1e-6, curves.first(deviation_of(name)) if curves.known(deviation_of(name)) else abs(fmean(before))
        ):
            return Finding(
                f"Reward hacking: {name} has risen by {risen:.2g} while success on held-out tasks fell by {fell:.0%} from its best.",
                "Go back to the checkpoint at its best. Weigh the outcome more, raise beta (KL), or train the reward model on "
                "judgments of these rollouts.",
            )
    return None


def deviation_of(name: str) -> str:
    """Where the spread of a reward is measured."""
    return "reward_std" if name == "reward" else name.removesuffix("/mean") + "/std"


def kl_blow_up(curves: Curves) -> Finding | None:
    """The policy leaves its base (Ziegler et al., 2019, arXiv 1909.08593, section 2.2, on why the KL is held): a jump, or simply far."""
    values = [value for value in curves.values.get("kl", []) if math.isfinite(value)]
    if len(values) < WINDOW or not curves.known(
        "reward"
    ):  # KTO's is that of whole completions, and no alarm at ten nats
        return None
    now, usual = fmean(values[-3:]), median(values[-WINDOW - 3 : -3] or values[:1])
    jumped = now > 0.1 and now > 5 * max(usual, 1e-3)
    if not jumped and now < 1.0:
        return None
    how = f"jumped from {usual:.2g} to {now:.2g}" if jumped else f"is {now:.2g}"
    return Finding(
        f"KL blow-up: the divergence from the base {how} nats a token.",
        "Lower the learning rate or raise beta, and go back to a checkpoint before the jump.",
    )


def length_gaming(curves: Curves) -> Finding | None:
    """Reward by length (Singhal et al., 2023, arXiv 2310.03716): rollouts grow, the reward with them, and success does not."""
    length = "completions/mean_length"
    success = "eval/success" if curves.known("eval/success", 4) else "success"
    least = 4 if success == "eval/success" else 2 * WINDOW
    if not curves.known(length, 2 * WINDOW) or not curves.known(success, least) or not curves.known("reward_std"):
        return None
    width = 2 if success == "eval/success" else WINDOW
    grown = curves.last(length) / max(1e-9, curves.first(length))
    gained = curves.last(success, width) - curves.first(success, width)
    risen = curves.last("reward") - curves.first("reward") > 0.25 * curves.first("reward_std")
    if grown < 1.5 or gained > 0.02 or not risen:
        return None
    return Finding(
        f"Length gaming: rollouts are {grown:.1f} times as long as at the beginning and the reward has risen, but success has not.",
        "Give turns a cost, shorten the budget, or take length out of the learned reward.",
    )


def dead_groups(curves: Curves) -> Finding | None:
    """Groups whose rollouts all got the same reward have no gradient (DAPO, Yu et al., 2025, arXiv 2503.14476, section 3.2)."""
    name = "frac_reward_zero_std"
    if not curves.known(name, WINDOW) or curves.mastered:
        return None
    share = curves.last(name)
    if share < 0.8:
        return None
    return Finding(
        f"Dead groups: in {share:.0%} of the groups all rollouts get the same reward, so they teach nothing.",
        "Choose tasks that the policy sometimes solves, raise the temperature, or let such groups be exchanged (resample).",
    )


RULES: dict[AlarmName, Rule] = {
    "not_a_number": not_a_number,
    "echo_trap": echo_trap,
    "reward_hacking": reward_hacking,
    "kl_blow_up": kl_blow_up,
    "length_gaming": length_gaming,
    "dead_groups": dead_groups,
}


class Watch:
    """Looks at a run as it goes. An alarm rises once; a resumed run is told its past first, and what rose then stays told."""

    def __init__(self, learned: Sequence[str] = ()) -> None:
        self.curves = Curves(learned=learned)
        self.raised: set[AlarmName] = set()

    def look(self, step: int, values: Mapping[str, float | None]) -> list[Alarm]:
        """The alarms that rise with these measurements."""
        self.curves.add(values)
        found = []
        for name, rule in RULES.items():
            if name not in self.raised and (finding := rule(self.curves)):
                self.raised.add(name)
                found.append(Alarm(name, step, *finding))
        return found

    def recall(self, past: Iterable[Mapping[str, float | None]]) -> None:
        """What was measured before a resume."""
        for values in past:
            self.look(0, values)
