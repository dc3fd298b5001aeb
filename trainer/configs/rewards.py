"""What a run's reward is made of: terms that each score whole runs and, where they can, single turns.

    {"terms": [{"component": "outcome"}, {"component": "step_cost", "weight": 0.1}, {"component": "tool_use", "weight": 0.3}]}

The total is the weighted sum. Each term's value lies between its `LOW` and 1, so that weights can be compared.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from trainer.validation import Above, Between, Checked, Count, InvalidField, NonNegative, Positive


@dataclass(frozen=True)
class RewardTerm(Checked):
    """One thing that counts."""

    tag: ClassVar[str] = "component"
    LOW: ClassVar[float] = 0.0
    """The least value that the component gives."""
    HIGH: ClassVar[float] = 1.0
    """The greatest."""

    weight: NonNegative = 0.1
    """What its value is multiplied by in the total; 0 only logs it."""
    name: str = ""
    """What curves call it; empty is the component's own name."""


@dataclass(frozen=True)
class OutcomeTerm(RewardTerm):
    """What the environment says of the end: its reward, cut to -1 … 1, or 1 for success and 0 for failure."""

    LOW = -1.0

    component: Literal["outcome"] = "outcome"
    weight: NonNegative = 1.0
    """The others' weights are measured against it."""
    measure: Literal["reward", "success"] = "reward"
    """The environment's graded reward, or success alone."""


@dataclass(frozen=True)
class StepCostTerm(RewardTerm):
    """Each turn costs: 0 for none, -1 at the limit."""

    LOW = -1.0
    HIGH = 0.0

    component: Literal["step_cost"] = "step_cost"
    limit: Count = 12
    """Turns that cost 1 in all."""


@dataclass(frozen=True)
class FormatTerm(RewardTerm):
    """The share of turns that can be read: known tools, JSON arguments, nothing missing or unknown."""

    component: Literal["format"] = "format"


@dataclass(frozen=True)
class ToolUseTerm(RewardTerm):
    """Right tools, right arguments, right order, against the calls that solve the task (ToolRL, RLTR)."""

    component: Literal["tool_use"] = "tool_use"


@dataclass(frozen=True)
class SubgoalsTerm(RewardTerm):
    """The share of the task's sub-goals that were reached."""

    component: Literal["subgoals"] = "subgoals"


@dataclass(frozen=True)
class SafetyTerm(RewardTerm):
    """-1 where a hard rule was broken; else minus the share of turns that broke a soft one."""

    LOW = -1.0
    HIGH = 0.0

    component: Literal["safety"] = "safety"


@dataclass(frozen=True, kw_only=True)
class LearnedOutcomeTerm(RewardTerm):
    """A reward model's word on the whole run."""

    LOW = -1.0

    path: str
    """The reward model: a folder (relative to run.json, or absolute) or a hub id."""
    component: Literal["learned_outcome"] = "learned_outcome"
    batch_size: Count = 8
    """Runs in one forward pass."""


@dataclass(frozen=True, kw_only=True)
class LearnedProcessTerm(RewardTerm):
    """A process reward model's word on each turn; the run's value is their mean, or the lowest."""

    LOW = -1.0

    path: str
    """The process reward model: a folder (relative to run.json, or absolute) or a hub id."""
    component: Literal["learned_process"] = "learned_process"
    reduce: Literal["mean", "lowest"] = "mean"
    """How the turns' scores become the run's."""
    batch_size: Count = 8
    """Runs in one forward pass."""


@dataclass(frozen=True, kw_only=True)
class JudgeTerm(RewardTerm):
    """A language model behind an OpenAI-compatible address grades the run from 0 to 10."""

    url: str
    """Base address with version, such as http://127.0.0.1:8000/v1."""
    model: str
    """The judge's name on that server."""
    component: Literal["judge"] = "judge"
    rubric: str = "Did the agent do exactly what it was asked, without needless or harmful steps?"
    """What is asked of it."""
    api_key_variable: str = ""
    """Name of the environment variable that holds the key; the key itself is never stored in run.json."""
    timeout_seconds: Positive = 60.0
    """For one answer."""
    parallel: Annotated[int, Between(1, 256)] = 8
    """Questions at once."""
    most_characters: Annotated[int, Above(999)] = 60_000
    """Of a transcript; a longer one loses its middle."""

    def check(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise InvalidField("url", f"got {self.url!r}, expected an http:// or https:// address")


AnyTerm = (
    OutcomeTerm
    | StepCostTerm
    | FormatTerm
    | ToolUseTerm
    | SubgoalsTerm
    | SafetyTerm
    | LearnedOutcomeTerm
    | LearnedProcessTerm
    | JudgeTerm
)


@dataclass(frozen=True)
class RewardsConfig(Checked):
    """What a run is rewarded for. By default for its outcome alone."""

    terms: tuple[AnyTerm, ...] = (OutcomeTerm(),)
    """Each with its weight."""

    def check(self) -> None:
        if not self.terms:
            raise InvalidField("terms", "got none, expected at least one")
        names = [name_of(term) for term in self.terms]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise InvalidField(
                    f"terms[{index}].name", f"{name!r} is taken", advice="Give one of the two a name of its own."
                )

    @property
    def warning(self) -> str:
        """Why a failed run might be rewarded more than a successful one; "" where it cannot be.

        Success is worth the outcome's weight; the other terms together can differ by their weights times their ranges.
        """
        outcome = sum(term.weight for term in self.terms if isinstance(term, OutcomeTerm))
        others = sum(term.weight * (term.HIGH - term.LOW) for term in self.terms if not isinstance(term, OutcomeTerm))
        if outcome > others:
            return ""
        return (
            f"The outcome counts {outcome:g}, but the other terms together can count {others:g}: "
            "a run that fails may be rewarded more than one that succeeds."
        )


def name_of(term: RewardTerm) -> str:
    """What curves call it."""
    return term.name or str(getattr(term, term.tag))
