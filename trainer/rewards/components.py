"""Builds reward components from a config."""

from pathlib import Path

from contract.configs.rewards import (
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
    name_of,
)
from contract.events import Warned
from trainer.events import EventLog
from trainer.failures import ConfigFailure
from trainer.rewards.environment import Outcome, Safety, StepCost, Subgoals
from trainer.rewards.format import Format
from trainer.rewards.protocol import Component
from trainer.rewards.tool_use import ToolUse
from trainer.rewards.total import Rewards


def rewards_for(config: RewardsConfig, folder: Path, events: EventLog | None = None) -> Rewards:
    """Build every term's component; models are loaded here, from paths relative to `folder`. Raises ConfigFailure.

    Warns in `events` if the outcome doesn't dominate.
    """
    if config.warning and events is not None:
        events.emit(Warned(config.warning, advice="Raise the outcome's weight, or lower the others'."))
    for term in config.terms:
        refuse_unresolved(term)
    return Rewards(config, [component_for(term, folder) for term in config.terms])


def refuse_unresolved(term: AnyTerm) -> None:
    """Raises ConfigFailure for a policy in Retrace without a location."""
    if isinstance(term, LearnedOutcomeTerm | LearnedProcessTerm) and not term.path:
        field = "path"
    elif isinstance(term, JudgeTerm) and not term.url:
        field = "url"
    else:
        return
    raise ConfigFailure(
        f"rewards: {name_of(term)} names the policy {term.policy} but no {field}.",
        advice=f"A worker of Retrace writes it; in a run.json of your own, add the {field}.",
    )


def component_for(term: AnyTerm, folder: Path) -> Component:
    """Code for models and servers is imported only when used."""
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
