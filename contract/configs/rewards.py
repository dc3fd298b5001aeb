"""The reward of a run: a sum of terms that score whole rollouts and, where they can, single turns.

    {"terms": [{"component": "outcome"}, {"component": "step_cost", "weight": 0.1}, {"component": "tool_use", "weight": 0.3}]}

The total is the weighted sum. Each term's value lies between its `LOW` and `HIGH`, so that weights are comparable.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from contract.configs.declaration import Config, Count, Positive, Seed, Setting, internal
from contract.configs.errors import InvalidField

RESOLVED = "the worker looks up where the policy's weights are"
ON_SERVER = "the worker looks it up at the policy's endpoint"
JUDGE_MODES = {"absolute": "Each rollout on its own", "ranking": "Rollouts of a group against each other"}
MAX_TERMS = 50
Weight = Annotated[float, Field(ge=0, le=1000), Setting(basic=True)]


class RewardTerm(Config):
    """One weighted term of the reward."""

    tag: ClassVar[str] = "component"
    TITLE: ClassVar[str] = ""
    """Display name of the component."""
    LOW: ClassVar[float] = 0.0
    """The component's minimum value."""
    HIGH: ClassVar[float] = 1.0
    """The greatest."""
    IS_LEARNED: ClassVar[bool] = False
    """Whether a model gives the score, which a policy can learn to exploit instead of doing its task."""

    weight: Weight = 0.1
    """Factor of its value in the total; with 0 it's only logged."""
    name: Annotated[str, Field(max_length=40, pattern=r"^[\w .-]*$"), Setting("Name in curves")] = ""
    """If empty, the component's name."""

    @property
    def influence(self) -> float:
        """How much it can change the total: its weight times its range."""
        return self.weight * (self.HIGH - self.LOW)


class OutcomeTerm(RewardTerm):
    """The environment's outcome: its reward, clipped to −1 … 1, or 1 for success and 0 for failure."""

    TITLE = "Environment outcome"
    LOW = -1.0

    component: Literal["outcome"] = "outcome"
    weight: Weight = 1.0
    """The weights of other terms are relative to it."""
    measure: Annotated[Literal["reward", "success"], Setting("Outcome measure")] = "reward"
    """Use the environment's graded reward, or only success; if the environment reports only one of the two, that one is used."""


class StepCostTerm(RewardTerm):
    """A cost for each turn: 0 for no turns, −1 at the limit."""

    TITLE = "Step cost"
    LOW = -1.0
    HIGH = 0.0

    component: Literal["step_cost"] = "step_cost"
    limit: Annotated[Count, Setting("Limit", unit="turns")] = 12
    """Number of turns at which the cost reaches 1."""


class FormatTerm(RewardTerm):
    """The share of well-formed turns: known tools, JSON arguments, no missing or unknown arguments."""

    TITLE = "Format"

    component: Literal["format"] = "format"


class ToolUseTerm(RewardTerm):
    """How well tools, arguments, and order match the calls that solve the task (ToolRL, RLTR)."""

    TITLE = "Tool choice and arguments"

    component: Literal["tool_use"] = "tool_use"


class SubgoalsTerm(RewardTerm):
    """The share of the task's subgoals that were reached."""

    TITLE = "Sub-goals"

    component: Literal["subgoals"] = "subgoals"


class SafetyTerm(RewardTerm):
    """−1 if a hard rule was broken; otherwise minus half the share of turns that broke a soft one."""

    TITLE = "Safety"
    LOW = -1.0
    HIGH = 0.0

    component: Literal["safety"] = "safety"


class LearnedOutcomeTerm(RewardTerm):
    """A reward model's score of the whole rollout."""

    TITLE = "Learned outcome reward"
    LOW = -1.0
    IS_LEARNED = True

    policy: Annotated[str, Setting("Reward model", source="reward_model", basic=True)] = ""
    """A reward model of the workspace (its id, over REST)."""
    path: Annotated[str, internal(RESOLVED)] = ""
    """Location of the model: a folder (relative to run.json, or absolute) or a hub id."""
    component: Literal["learned_outcome"] = "learned_outcome"
    batch_size: Annotated[Count, Setting(unit="rollouts")] = 8
    """Rollouts in one forward pass."""

    def check(self) -> None:
        if not self.policy and not self.path:
            raise InvalidField("policy", "missing", advice="Choose a reward model.")


class LearnedProcessTerm(RewardTerm):
    """A process reward model's score of each turn; the rollout's value is their mean or minimum."""

    TITLE = "Learned process reward"
    LOW = -1.0
    IS_LEARNED = True

    policy: Annotated[str, Setting("Process reward model", source="process_model", basic=True)] = ""
    """A process reward model of the workspace (its id, over REST)."""
    path: Annotated[str, internal(RESOLVED)] = ""
    """Location of the model: a folder (relative to run.json, or absolute) or a hub id."""
    component: Literal["learned_process"] = "learned_process"
    reduce: Annotated[Literal["mean", "lowest"], Setting("Rollout's value")] = "mean"
    """How the turns' scores are combined into the rollout's."""
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
    """A served model of the workspace (its id, over REST)."""
    url: Annotated[str, internal(ON_SERVER)] = ""
    """Base URL including the version, such as http://127.0.0.1:8000/v1."""
    model: Annotated[str, internal(ON_SERVER)] = ""
    """The judge's name on that server."""
    component: Literal["judge"] = "judge"
    mode: Annotated[Literal["absolute", "ranking"], Setting("Judged", basic=True, labels=JUDGE_MODES)] = "absolute"
    """Ranking shows the judge a whole group at once, which is easier than a scale; only differences within a group matter."""
    rubric: Annotated[str, Field(min_length=1, max_length=4000)] = (
        "Did the agent do exactly what it was asked, without needless or harmful steps?"
    )
    """What the judge is asked."""
    prompt_version: Literal["1"] = "1"
    """Version of the instructions around the rubric. It changes with their wording, so that runs can be compared."""
    seed: Seed = 0
    """Seed for the order in which a group's rollouts are shown."""
    api_key_variable: Annotated[str, internal(ON_SERVER)] = ""
    """Name of the environment variable that holds the key; the key itself is never stored in run.json."""
    timeout_seconds: Annotated[Positive, Setting("Time limit", unit="seconds")] = 60.0
    """Timeout of one request."""
    parallel: Annotated[int, Field(ge=1, le=256)] = 8
    """Concurrent requests."""
    most_characters: Annotated[int, Field(ge=1000, le=10_000_000), Setting("Longest transcript", unit="characters")] = (
        60_000
    )
    """Maximum length of a transcript; the middle of a longer one is cut out."""

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
    """What a run is rewarded for; by default, only the outcome."""

    terms: Annotated[
        tuple[AnyTerm, ...], Field(strict=False, max_length=MAX_TERMS), Setting("Reward terms", basic=True)
    ] = (OutcomeTerm(),)
    """The terms, each with its weight."""

    def check(self) -> None:
        if not self.terms:
            raise InvalidField("terms", "got none, expected at least one")
        names = [name_of(term) for term in self.terms]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise InvalidField(
                    f"terms[{index}].name", f"{name!r} is already used", advice="Give one of the two another name."
                )

    @property
    def outcome_measure(self) -> str:
        """The config path of the outcome term's `measure`; "" if there is no outcome term."""
        indices = (index for index, term in enumerate(self.terms) if isinstance(term, OutcomeTerm) and term.weight)
        return next((f"rewards.terms[{index}].measure" for index in indices), "")

    @property
    def warning(self) -> str:
        """Why a failed rollout might be rewarded more than a successful one; "" if it can't.

        Success is worth the outcome's weight; the other terms together can differ by the sum of weight × range.
        """
        outcome = sum(term.weight for term in self.terms if isinstance(term, OutcomeTerm))
        other_influence = sum(term.influence for term in self.terms if not isinstance(term, OutcomeTerm))
        if outcome > other_influence:
            return ""
        return (
            f"The outcome counts {outcome:g}, but the other terms together can count {other_influence:g}: "
            "a rollout that fails may be rewarded more than one that succeeds."
        )


def component_of(term: RewardTerm) -> str:
    return str(getattr(term, term.tag))


def name_of(term: RewardTerm) -> str:
    """Its name in curves."""
    return term.name or component_of(term)
