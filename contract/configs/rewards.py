"""What a run's reward is made of: terms that each score whole rollouts and, where they can, single turns.

    {"terms": [{"component": "outcome"}, {"component": "step_cost", "weight": 0.1}, {"component": "tool_use", "weight": 0.3}]}

The total is the weighted sum. Each term's value lies between its `LOW` and `HIGH`, so that weights can be compared.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from contract.configs.declaration import Config, Count, Positive, Seed, Setting, internal
from contract.configs.errors import InvalidField

RESOLVED = "the worker looks up where the policy's weights are"
ON_SERVER = "it belongs to the policy's endpoint, and the worker looks it up"
JUDGE_MODES = {"absolute": "Each rollout by itself", "ranking": "The rollouts of a group against each other"}
MOST_TERMS = 50
Weight = Annotated[float, Field(ge=0, le=1000), Setting(basic=True)]


class RewardTerm(Config):
    """One thing that counts."""

    tag: ClassVar[str] = "component"
    TITLE: ClassVar[str] = ""
    """What people call the component."""
    LOW: ClassVar[float] = 0.0
    """The least value that the component gives."""
    HIGH: ClassVar[float] = 1.0
    """The greatest."""
    IS_LEARNED: ClassVar[bool] = False
    """A model's opinion, which a policy can learn to please instead of doing its task."""

    weight: Weight = 0.1
    """What its value is multiplied by in the total; 0 only logs it."""
    name: Annotated[str, Field(max_length=40, pattern=r"^[\w .-]*$"), Setting("Name in curves")] = ""
    """Empty is the component's own name."""

    @property
    def sway(self) -> float:
        """By how much it can move the total: its weight times its range."""
        return self.weight * (self.HIGH - self.LOW)


class OutcomeTerm(RewardTerm):
    """What the environment says of the end: its reward, cut to -1 … 1, or 1 for success and 0 for failure."""

    TITLE = "Environment outcome"
    LOW = -1.0

    component: Literal["outcome"] = "outcome"
    weight: Weight = 1.0
    """The others' weights are measured against it."""
    measure: Annotated[Literal["reward", "success"], Setting("Outcome measure")] = "reward"
    """The environment's graded reward, or success alone; where the environment tells only the other, that one."""


class StepCostTerm(RewardTerm):
    """Each turn costs: 0 for none, -1 at the limit."""

    TITLE = "Step cost"
    LOW = -1.0
    HIGH = 0.0

    component: Literal["step_cost"] = "step_cost"
    limit: Annotated[Count, Setting("Limit", unit="turns")] = 12
    """Turns that cost 1 in all."""


class FormatTerm(RewardTerm):
    """The share of turns that can be read: known tools, JSON arguments, nothing missing or unknown."""

    TITLE = "Format"

    component: Literal["format"] = "format"


class ToolUseTerm(RewardTerm):
    """Right tools, right arguments, right order, against the calls that solve the task (ToolRL, RLTR)."""

    TITLE = "Tool choice and arguments"

    component: Literal["tool_use"] = "tool_use"


class SubgoalsTerm(RewardTerm):
    """The share of the task's sub-goals that were reached."""

    TITLE = "Sub-goals"

    component: Literal["subgoals"] = "subgoals"


class SafetyTerm(RewardTerm):
    """-1 where a hard rule was broken; else minus the share of turns that broke a soft one."""

    TITLE = "Safety"
    LOW = -1.0
    HIGH = 0.0

    component: Literal["safety"] = "safety"


class LearnedOutcomeTerm(RewardTerm):
    """What a reward model says of the whole rollout."""

    TITLE = "Learned outcome reward"
    LOW = -1.0
    IS_LEARNED = True

    policy: Annotated[str, Setting("Reward model", source="reward_model", basic=True)] = ""
    """A reward model of the workspace (over REST, its id)."""
    path: Annotated[str, internal(RESOLVED)] = ""
    """Where it is: a folder (relative to run.json, or absolute) or a hub id."""
    component: Literal["learned_outcome"] = "learned_outcome"
    batch_size: Annotated[Count, Setting(unit="rollouts")] = 8
    """Rollouts in one forward pass."""

    def check(self) -> None:
        if not self.policy and not self.path:
            raise InvalidField("policy", "missing", advice="Choose a reward model.")


class LearnedProcessTerm(RewardTerm):
    """What a process reward model says of each turn; the rollout's value is their mean, or the lowest."""

    TITLE = "Learned process reward"
    LOW = -1.0
    IS_LEARNED = True

    policy: Annotated[str, Setting("Process reward model", source="process_model", basic=True)] = ""
    """A process reward model of the workspace (over REST, its id)."""
    path: Annotated[str, internal(RESOLVED)] = ""
    """Where it is: a folder (relative to run.json, or absolute) or a hub id."""
    component: Literal["learned_process"] = "learned_process"
    reduce: Annotated[Literal["mean", "lowest"], Setting("Rollout's value")] = "mean"
    """How the turns' scores become the rollout's."""
    batch_size: Annotated[Count, Setting(unit="rollouts")] = 8
    """Rollouts in one forward pass."""

    def check(self) -> None:
        if not self.policy and not self.path:
            raise InvalidField("policy", "missing", advice="Choose a process reward model.")


class JudgeTerm(RewardTerm):
    """A language model grades each rollout, or ranks the rollouts of a group against each other (after RULER)."""

    TITLE = "LLM judge"
    IS_LEARNED = True

    policy: Annotated[str, Setting("Judge", source="judge", basic=True)] = ""
    """A served model of the workspace (over REST, its id)."""
    url: Annotated[str, internal(ON_SERVER)] = ""
    """Base address with version, such as http://127.0.0.1:8000/v1."""
    model: Annotated[str, internal(ON_SERVER)] = ""
    """The judge's name on that server."""
    component: Literal["judge"] = "judge"
    mode: Annotated[Literal["absolute", "ranking"], Setting("Judged", basic=True, labels=JUDGE_MODES)] = "absolute"
    """Ranking shows the judge a whole group at once: easier for it than a scale, and only differences within a group teach."""
    rubric: Annotated[str, Field(min_length=1, max_length=4000)] = (
        "Did the agent do exactly what it was asked, without needless or harmful steps?"
    )
    """What is asked of it."""
    prompt_version: Literal["1"] = "1"
    """Of the instructions around the rubric. Another wording gets another version, so that runs can be compared."""
    seed: Seed = 0
    """In which order a group's rollouts are shown."""
    api_key_variable: Annotated[str, internal(ON_SERVER)] = ""
    """Name of the environment variable that holds the key; the key itself is never stored in run.json."""
    timeout_seconds: Annotated[Positive, Setting("Time limit", unit="seconds")] = 60.0
    """For one answer."""
    parallel: Annotated[int, Field(ge=1, le=256)] = 8
    """Questions at once."""
    most_characters: Annotated[int, Field(ge=1000, le=10_000_000), Setting("Longest transcript", unit="characters")] = (
        60_000
    )
    """Of a transcript; a longer one loses its middle."""

    def check(self) -> None:
        if not self.policy and not self.url:
            raise InvalidField("policy", "missing", advice="Choose a judge.")
        if self.url and not self.model:
            raise InvalidField("model", "missing", advice="Name the model on that server.")
        if self.url and not self.url.startswith(("http://", "https://")):
            raise InvalidField("url", f"got {self.url!r}, expected an http:// or https:// address")


AnyTerm = Annotated[
    OutcomeTerm
    | SubgoalsTerm
    | SafetyTerm
    | StepCostTerm
    | FormatTerm
    | ToolUseTerm
    | LearnedOutcomeTerm
    | LearnedProcessTerm
    | JudgeTerm,
    Field(discriminator="component"),
]


class RewardsConfig(Config):
    """What a run is rewarded for. By default for its outcome alone."""

    terms: Annotated[
        tuple[AnyTerm, ...], Field(strict=False, max_length=MOST_TERMS), Setting("Reward terms", basic=True)
    ] = (OutcomeTerm(),)
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
    def outcome_measure(self) -> str:
        """The path, in a run's config, of how the outcome is measured; "" where the outcome doesn't count."""
        places = (index for index, term in enumerate(self.terms) if isinstance(term, OutcomeTerm) and term.weight)
        return next((f"rewards.terms[{index}].measure" for index in places), "")

    @property
    def warning(self) -> str:
        """Why a failed rollout might be rewarded more than a successful one; "" where it can't be.

        Success is worth the outcome's weight; the other terms together can differ by their weights times their ranges.
        """
        outcome = sum(term.weight for term in self.terms if isinstance(term, OutcomeTerm))
        others = sum(term.sway for term in self.terms if not isinstance(term, OutcomeTerm))
        if outcome > others:
            return ""
        return (
            f"The outcome counts {outcome:g}, but the other terms together can count {others:g}: "
            "a rollout that fails may be rewarded more than one that succeeds."
        )


def component_of(term: RewardTerm) -> str:
    return str(getattr(term, term.tag))


def name_of(term: RewardTerm) -> str:
    """What curves call it."""
    return term.name or component_of(term)
