"""Recording what somebody said of a run step by step."""

from django.db import transaction

from apps.annotation.asking import StepsAsks
from apps.annotation.desk.answers import Walk
from apps.annotation.desk.concluding import columns_of, conclude, expect_kind, hold, locked
from apps.annotation.desk.continuing import branch_after, sampled_by
from apps.annotation.desk.correcting import check_action, tools_of
from apps.annotation.models import Assignment, Correction, Inspection, Queue, StepLabel
from apps.annotation.refusals import AlreadyJudged, BadAction, Incomplete
from apps.trajectories.models import Step, Trajectory


@transaction.atomic
def record_inspection(
    *, assignment: Assignment, walk: Walk, seconds: float = 0.0, guideline_version: int = 0
) -> Inspection:
    """Store how the going-through ended and every label and correction, and close the assignment.

    The same answer again is answered as the first time; another one raises AlreadyJudged. Incomplete says which steps
    the queue still wants labelled. Leases are as with preferences.
    """
    expect_kind(assignment, Queue.Kind.STEPS)
    desk, held = locked(assignment)
    if held.state == Assignment.State.JUDGED:
        if Walk.of(held.inspection) != walk:
            raise AlreadyJudged
        return held.inspection
    hold(held)
    check_walk(walk, StepsAsks.from_json(assignment.queue.asks), steps=held.item.a.step_count)
    _check_actions(walk, held.item.a)
    inspection = Inspection.objects.create(
        **columns_of(held, seconds=seconds, guideline_version=guideline_version),
        ending=walk.ending,
        first_error=walk.first_error,
        rationale=walk.rationale,
    )
    StepLabel.objects.bulk_create(StepLabel(inspection=inspection, **vars(label)) for label in walk.labels)
    Correction.objects.bulk_create(
        Correction(
            inspection=inspection,
            index=action.index,
            message=action.message,
            origin=action.origin,
            policy_id=action.policy,
            branch_id=branch_after(held.item.a, action.index, action.message),
        )
        for action in walk.corrections
    )
    conclude(desk, held, inspection)
    return inspection


def check_walk(walk: Walk, asks: StepsAsks, *, steps: int) -> None:
    """Raises Incomplete, saying what to do, for a walk that the queue does not take or that contradicts itself."""
    values = {label.index: label.value for label in walk.labels}
    if beyond := [index for index in (*values, *(action.index for action in walk.corrections)) if index >= steps]:
        raise Incomplete(f"There is no step {beyond[0] + 1}: this run has {steps}.")
    if walk.corrections and not asks.corrections:
        raise Incomplete("This queue takes no better actions.")
    if (walk.ending == Inspection.Ending.FOUND_ERROR) != (walk.first_error is not None):
        raise Incomplete("Mark the first wrong step with x, or choose another ending.")
    if walk.first_error is not None and values.get(walk.first_error) != -1:
        raise Incomplete(f"Step {walk.first_error + 1} is marked as the first error, so it cannot be good.")
    if walk.ending in (Inspection.Ending.BAD_PROBLEM, Inspection.Ending.GIVE_UP) or not asks.every_step:
        return
    needed = steps if walk.first_error is None else walk.first_error + 1
    if missing := [index + 1 for index in range(needed) if index not in values]:
        raise Incomplete(f"Label step {_in_words(missing)} first.")


def _check_actions(walk: Walk, run: Trajectory) -> None:
    """Raises BadAction for a written action that the run's tools refuse, and for one that no policy was sampled to give."""
    for action in walk.corrections:
        if action.policy is not None and sampled_by(run, action.index, action.message) != action.policy:
            raise BadAction(f"The action chosen at step {action.index + 1} is none of those that were sampled there.")
    written = {action.index: action.message for action in walk.corrections if action.policy is None}
    before = Step.objects.filter(trajectory=run, index__in=written).values_list("index", "message")
    for index, message in before if written else ():
        check_action(written[index], tools_of(run.tools, message))


def _in_words(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    return f"{shown} and {len(numbers) - 5} more" if len(numbers) > 5 else shown
