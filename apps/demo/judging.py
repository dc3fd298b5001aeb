"""Rule annotators at work: they take items and answer like anybody else, and are shown as rules."""

from apps.accounts.models import Workspace
from apps.annotation.assigning import next_assignment
from apps.annotation.labelling import record_preference
from apps.annotation.models import Annotator, Preference, Queue
from apps.demo.rules import RULES, RunFacts
from apps.trajectories.models import Trajectory


def rule_annotator(workspace: Workspace, name: str) -> Annotator:
    """The annotator that answers by the rule `name`."""
    annotator, _ = Annotator.objects.get_or_create(workspace=workspace, kind=Annotator.Kind.RULE, name=name)
    return annotator


def judge_by_rule(*, queue: Queue, rule: str, share: float, at_most: int) -> bool:
    """Let a rule judge up to `at_most` items more; whether it has now judged `share` of the queue, or all it can get."""
    annotator = rule_annotator(queue.workspace, rule)
    done = Preference.objects.standing().filter(queue=queue, annotator=annotator).count()
    missing = round(queue.item_count * share) - done
    for _ in range(min(missing, at_most)):
        assignment = next_assignment(queue=queue, annotator=annotator)
        if assignment is None:
            return True
        item = assignment.item
        assert item.b is not None, "the demo's queues hold pairs"
        answer = RULES[rule](_facts(item.a), _facts(item.b))
        record_preference(
            assignment=assignment, strength=answer.strength, both_bad=answer.both_bad, rationale=answer.rationale
        )
    return missing <= at_most


def _facts(run: Trajectory) -> RunFacts:
    return RunFacts(success=bool(run.success), reward=run.reward or 0.0, steps=run.step_count, errors=run.error_count)
