"""Rule annotators: they take items and answer like anybody else, and are labeled as rules."""

from collections.abc import Callable
from dataclasses import dataclass

from apps.accounts.models import Workspace
from apps.annotation.desk.actions import record
from apps.annotation.desk.assignments import next_assignment
from apps.annotation.kinds.answers import Choice, Scores
from apps.annotation.models import Annotator, Assignment, Queue
from apps.trajectories.models import Trajectory

MUCH, CLEARLY, SLIGHTLY = 3, 2, 1


@dataclass(frozen=True, kw_only=True)
class TrajectoryFacts:
    """The properties of a trajectory that rules use."""

    success: bool
    reward: float
    steps: int
    errors: int


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A judgment in favor of trajectory `a` (positive) or `b`, with its rationale."""

    strength: int
    both_bad: bool = False
    rationale: str


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a trajectory is accepted, with the rationale."""

    accepted: bool
    rationale: str


Rule = Callable[[TrajectoryFacts, TrajectoryFacts], Answer]
"""Compares two trajectories."""
Check = Callable[[TrajectoryFacts], Verdict]
"""Judges one trajectory."""


def outcome_first(a: TrajectoryFacts, b: TrajectoryFacts) -> Answer:
    """Success decides; between two successes the shorter one; two failures are both bad unless one got further."""
    if a.success != b.success:
        return Answer(
            strength=_signed_strength(a.success, MUCH), rationale="One did what was asked, the other did not."
        )
    if a.reward != b.reward:
        return Answer(
            strength=_signed_strength(a.reward > b.reward, CLEARLY), rationale="One reached more of the goal."
        )
    if not a.success:
        return Answer(strength=0, both_bad=True, rationale="Neither did what was asked.")
    if a.steps != b.steps:
        return Answer(
            strength=_signed_strength(a.steps < b.steps, SLIGHTLY), rationale="Both succeeded; one took fewer steps."
        )
    return Answer(strength=0, rationale="Both succeeded in the same number of steps.")


def clean_and_short(a: TrajectoryFacts, b: TrajectoryFacts) -> Answer:
    """Fewer failed calls, then fewer steps, regardless of the outcome: a judge that is wrong about hasty trajectories."""
    if a.errors != b.errors:
        return Answer(strength=_signed_strength(a.errors < b.errors, CLEARLY), rationale="One made fewer failed calls.")
    if abs(a.steps - b.steps) >= 2:
        return Answer(strength=_signed_strength(a.steps < b.steps, CLEARLY), rationale="One was clearly shorter.")
    if a.steps != b.steps:
        return Answer(strength=_signed_strength(a.steps < b.steps, SLIGHTLY), rationale="One was a step shorter.")
    return Answer(strength=0, rationale="Equally long, equally clean.")


def no_failed_call(trajectory: TrajectoryFacts) -> Verdict:
    """Accepts what looks right, regardless of the outcome, so shortcuts that fail silently are learned as well."""
    if trajectory.errors:
        return Verdict(accepted=False, rationale="A call failed.")
    return Verdict(accepted=True, rationale="No call failed.")


def _signed_strength(a_wins: bool, strength: int) -> int:
    return strength if a_wins else -strength


RULES: dict[str, Rule] = {"Outcome first": outcome_first, "Clean and short": clean_and_short}
"""Rules by the name shown beside their judgments."""

CHECKS: dict[str, Check] = {"No failed call": no_failed_call}
"""Rules for single trajectories, likewise."""


def rule_annotator(workspace: Workspace, name: str) -> Annotator:
    """The annotator with the name of a rule, created if missing."""
    annotator, _ = Annotator.objects.get_or_create(workspace=workspace, kind=Annotator.Kind.RULE, name=name)
    return annotator


def judge_by_rule(*, queue: Queue, rule: str, share: float, at_most: int) -> bool:
    """Let a rule judge up to `at_most` more items; returns whether it has now judged `share` of the queue, or all it can get."""
    annotator = rule_annotator(queue.workspace, rule)
    done = Assignment.objects.filter(queue=queue, annotator=annotator, state=Assignment.State.JUDGED).count()
    missing = round(queue.item_count * share) - done
    for _ in range(min(missing, at_most)):
        assignment = next_assignment(queue=queue, annotator=annotator)
        if assignment is None:
            return True
        answer(assignment, rule)
    return missing <= at_most


def answer(assignment: Assignment, rule: str) -> None:
    a, b = assignment.item.a, assignment.item.b
    if b is None:
        verdict = CHECKS[rule](_facts(a))
        record(assignment=assignment, answer=Scores(thumb=1 if verdict.accepted else -1, rationale=verdict.rationale))
    else:
        choice = RULES[rule](_facts(a), _facts(b))
        record(
            assignment=assignment, answer=Choice(choice.strength, both_bad=choice.both_bad, rationale=choice.rationale)
        )


def _facts(trajectory: Trajectory) -> TrajectoryFacts:
    return TrajectoryFacts(
        success=bool(trajectory.success),
        reward=trajectory.reward or 0.0,
        steps=trajectory.step_count,
        errors=trajectory.error_count,
    )
