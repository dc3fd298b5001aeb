"""From a config to components."""

from pathlib import Path

from trainer.configs.rewards import (
    AnyTerm,
    FormatTerm,
    JudgeTerm,
    LearnedOutcomeTerm,
    LearnedProcessTerm,
    OutcomeTerm,
    RewardsConfig,
    SafetyTerm,
    StepCostTerm,
    SubgoalsTerm,
    ToolUseTerm,
)
from trainer.events import EventLog, Warned
from trainer.rewards.environment import Outcome, Safety, StepCost, Subgoals
from trainer.rewards.format import Format
from trainer.rewards.protocol import Component
from trainer.rewards.tool_use import ToolUse
from trainer.rewards.total import Rewards


def rewards_for(config: RewardsConfig, folder: Path, events: EventLog | None = None) -> Rewards:
    """Make every term's component; models are loaded here, from paths relative to `folder`. Raises ConfigFailure.

    Says so in `events` where the outcome does not dominate.
    """
    if config.warning and events is not None:
        events.emit(Warned(config.warning, advice="Raise the outcome's weight, or lower the others'."))
    return Rewards(config, [component_for(term, folder) for term in config.terms])


def component_for(term: AnyTerm, folder: Path) -> Component:
    """Models and servers are imported only where they are asked for."""
    match term:
        case OutcomeTerm():
            return Outcome(term)
        case StepCostTerm():
            return StepCost(term)
        case FormatTerm():
            return Format()
        case ToolUseTerm():
            return ToolUse()
        case SubgoalsTerm():
            return Subgoals()
        case SafetyTerm():
            return Safety()
        case LearnedOutcomeTerm():
            from trainer.rewards.learned import LearnedOutcome

            return LearnedOutcome(term, folder)
        case LearnedProcessTerm():
            from trainer.rewards.learned import LearnedProcess

            return LearnedProcess(term, folder)
        case JudgeTerm():
            from trainer.rewards.judge import Judge

            return Judge(term)
