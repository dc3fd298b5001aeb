"""Rule annotators at work: they take items and answer like anybody else, and are shown as rules."""

from apps.accounts.models import Workspace
from apps.annotation.assigning import next_assignment
from apps.annotation.labelling import record_preference
from apps.annotation.models import Annotator, Queue
from apps.demo.rules import RULES, RunFacts
from apps.trajectories.models import Trajectory


def rule_annotator(workspace: Workspace, name: str) -> Annotator:
    """The annotator that answers by the rule `name`."""
    annotator, _ = Annotator.objects.get_or_create(workspace=workspace, kind=Annotator.Kind.RULE, name=name)
    return annotator


def judge_by_rule(*, queue: Queue, rule: str, share: float) -> int:
    """Let a rule judge until it has done `share` of the queue's items; how many judgements that added."""
    annotator = rule_annotator(queue.workspace, rule)
    done = annotator.preferences.standing().filter(queue=queue).count()
    wanted = round(queue.item_count * share) - done
    added = 0
    while added < wanted:
        assignment = next_assignment(queue=queue, annotator=annotator)
        if assignment is None:
            break
        answer = RULES[rule](_facts(assignment.item.a), _facts(assignment.item.b))
        record_preference(
            assignment=assignment, strength=answer.strength, both_bad=answer.both_bad, rationale=answer.rationale
        )
        added += 1
    return added


def _facts(run: Trajectory) -> RunFacts:
    return RunFacts(success=bool(run.success), reward=run.reward or 0.0, steps=run.step_count, errors=run.error_count)
