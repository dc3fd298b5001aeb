"""When an experiment ends. The rule is fixed before the first judgment, and nothing else ends an experiment automatically. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from apps.arena.win_rates import Interval


class Outcome(StrEnum):
    """The conclusion from the evidence so far."""

    A_BETTER = "a_better"
    B_BETTER = "b_better"
    NO_DIFFERENCE_SHOWN = "no_difference_shown"
    UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True)
class StoppingRule:
    """Stop when the interval of A's win rate excludes ½, or when every task is judged.

    The interval is a confidence sequence: it may be looked at after every judgment, and the probability that it ever excludes
    the true value stays below alpha.
    """

    min_tasks: int = 10
    """Judged tasks before a difference may end the experiment, since a handful of tasks isn't representative."""
    alpha: float = 0.05

    def outcome(self, win_rate: Interval, *, tasks_planned: int) -> Outcome:
        """The current outcome, given A's win rate over the judged tasks."""
        if win_rate.n >= min(self.min_tasks, tasks_planned):
            if win_rate.low > 0.5:
                return Outcome.A_BETTER
            if win_rate.high < 0.5:
                return Outcome.B_BETTER
        return Outcome.NO_DIFFERENCE_SHOWN if win_rate.n >= tasks_planned else Outcome.UNDECIDED

    def as_text(self) -> str:
        return (
            f"Stops when the {100 * (1 - self.alpha):g} % interval of the win rate excludes 50 %, after {self.min_tasks} "
            "judged tasks at the earliest, or when every task is judged."
        )
