"""Rule annotators at work: they take items and answer like anybody else, and are shown as rules."""

from apps.accounts.models import Workspace
from apps.annotation.desk.actions import record
from apps.annotation.desk.assignments import next_assignment
from apps.annotation.kinds.answers import Choice, Scores
from apps.annotation.models import Annotator, Assignment, Queue
from apps.demo.rules import CHECKS, RULES, RunFacts
from apps.trajectories.models import Trajectory


def rule_annotator(workspace: Workspace, name: str) -> Annotator:
    """The annotator that answers by the rule `name`."""
    annotator, _ = Annotator.objects.get_or_create(workspace=workspace, kind=Annotator.Kind.RULE, name=name)
    return annotator


def judge_by_rule(*, queue: Queue, rule: str, share: float, at_most: int) -> bool:
    """Let a rule judge up to `at_most` items more; whether it has now judged `share` of the queue, or all it can get."""
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
        found = RULES[rule](_facts(a), _facts(b))
        record(assignment=assignment, answer=Choice(found.strength, both_bad=found.both_bad, rationale=found.rationale))


def _facts(run: Trajectory) -> RunFacts:
    return RunFacts(success=bool(run.success), reward=run.reward or 0.0, steps=run.step_count, errors=run.error_count)
