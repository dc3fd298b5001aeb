"""Converts user feedback into judgments of annotator kind "user": a thumb and a comment become a rating, an edited answer a correction.

They're stored in closed queues of their own, so they don't affect agreement among annotators, and a dataset version includes them only if its
recipe names these queues. All users of a workspace share one annotator; a session's latest thumb, comment, and edited answer count.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from uuid import UUID

from django.db import OperationalError, transaction
from django.db.models import F, TextField
from django.db.models.functions import Cast
from django.utils.timezone import now

from apps.accounts.models import Workspace
from apps.annotation.desk.assignments import lock_desk
from apps.annotation.kinds import KINDS
from apps.annotation.kinds.answers import CorrectedAction, InspectionAnswer, Scores
from apps.annotation.kinds.kind import Submission
from apps.annotation.kinds.questions import Asks, RatingAsks, StepsAsks
from apps.annotation.models import Adjudication, Annotator, Assignment, Inspection, Item, Queue
from apps.common.query_time_limit import unless_locked
from apps.common.workspace_turns import in_workspace_turns
from apps.gateway.feedback import feedback_to_judge
from apps.gateway.models import Feedback, Path, Session
from apps.trajectories.models import Trajectory

log = logging.getLogger(__name__)

USERS = "Users"
"""The name of the annotator that stands for all users of a workspace."""
MAX_PATHS = 10
"""How many paths with a call are looked at: most calls are on one, and the first that is found counts."""
TURN_SECONDS = 5.0
"""How long feedback of one workspace is converted before that of the next."""
QUEUES: dict[type[Scores | InspectionAnswer], tuple[Queue.Kind, str, Asks]] = {
    Scores: (Queue.Kind.RATING, "Feedback from users", RatingAsks(questions=(), marks=False)),
    InspectionAnswer: (Queue.Kind.STEPS, "Answers edited by users", StepsAsks(questions=(), every_step=False)),
}


def judge_feedback() -> None:
    """Convert the feedback on sessions that have ended. Each workspace gets a few seconds, since anybody with one of its keys may send a lot."""
    sessions = Session.objects.filter(pk__in=feedback_to_judge().values("session"))
    for session in in_workspace_turns(sessions, name="user-feedback", seconds=TURN_SECONDS):
        try:
            with unless_locked():
                judge(session.pk)
        except OperationalError:
            raise  # the database is down, or resolved a deadlock: retried in seconds
        except Exception:  # an error in one session mustn't block the others
            log.exception("The feedback on session %s couldn't be converted to a judgment", session.pk)
            Feedback.objects.filter(session=session, judged_at=None).update(judged_at=now())


@transaction.atomic
def judge(session_id: UUID) -> None:
    """Convert the latest feedback of each kind on a session. Idempotent.

    Does nothing if the session has no trajectory.
    """
    new = list(feedback_to_judge().filter(session=session_id).select_for_update(of=("self",), skip_locked=True))
    if not new:
        return
    Feedback.objects.filter(pk__in=[feedback.pk for feedback in new]).update(judged_at=now())
    path = Path.objects.filter(session=session_id, is_main=True).select_related("trajectory__workspace").first()
    if path is None or path.trajectory.step_count == 0:
        return
    feedback = list(Feedback.objects.filter(session=session_id).order_by("pk"))
    for trajectory, answer in _answers(feedback, path.trajectory, new):
        _store(path.trajectory.workspace, trajectory, answer)


def _answers(
    feedback: Sequence[Feedback], main: Trajectory, new: Sequence[Feedback]
) -> Iterator[tuple[Trajectory, Scores | InspectionAnswer]]:
    """What counts of this feedback on one session, each with the trajectory that it's about; only answers that the new feedback changes."""
    thumb = next((remark.thumb for remark in reversed(feedback) if remark.thumb is not None), None)
    comment = next((remark.comment for remark in reversed(feedback) if remark.comment), "")
    edited = next((remark for remark in reversed(feedback) if remark.edited), None)
    if any(remark.thumb is not None or remark.comment for remark in new):
        yield main, Scores(thumb=thumb, rationale=comment)
    if edited is not None and edited in new and (place := _place_of(edited, main)):
        # Only the correction, without labels of earlier steps, which the user didn't see.
        trajectory, step = place
        better = CorrectedAction(step, {"content": edited.edited})
        yield trajectory, InspectionAnswer(Inspection.Ending.EDITED, corrections=(better,))


def _place_of(edited: Feedback, main: Trajectory) -> tuple[Trajectory, int] | None:
    """The step that was edited: of the call that the feedback names, on whichever path it is, or the last one that the user had seen by then.

    None if it's in no trajectory: anywhere else, it would be learned as the answer to another question.
    """
    if edited.call_id is None:
        seen = sum(call < str(edited.pk) for call in _calls_of(main))  # ids are in the order of their time
        return (main, seen - 1) if seen else None
    call = str(edited.call_id)
    with_call = Trajectory.objects.alias(text=Cast("info", TextField())).filter(text__contains=call)
    paths = with_call.filter(session_path__session=edited.session_id).order_by("-session_path__is_main", "pk")
    for trajectory in paths[:MAX_PATHS]:
        if call in (calls := _calls_of(trajectory)):
            return trajectory, calls.index(call)
    return None


def _calls_of(trajectory: Trajectory) -> list[str]:
    calls: list[str] = trajectory.info.get("calls", [])
    return calls[: trajectory.step_count]


def _store(workspace: Workspace, trajectory: Trajectory, answer: Scores | InspectionAnswer) -> None:
    queue, annotator = _queue_of(workspace, answer), _users_of(workspace)
    desk = lock_desk(queue=queue.pk, annotator=annotator.pk)
    item, is_new = Item.objects.get_or_create(
        queue=queue,
        a=trajectory,
        defaults={
            "kind": queue.kind,
            "task_id": trajectory.task_id,
            "position": queue.item_count,
            "overlap": 1,
            "taken": 1,
        },
    )
    if is_new:
        Queue.objects.filter(pk=queue.pk).update(item_count=F("item_count") + 1, items_expected=F("items_expected") + 1)
    desk.judged += 1 - _withdraw_earlier(queue, trajectory, annotator)
    desk.save(update_fields=["judged"])
    Item.objects.filter(pk=item.pk).update(judged=F("judged") + 1)
    assignment = Assignment.already_judged(queue, item, annotator, now())
    assignment.save()
    KINDS[queue.kind].store([Submission(assignment, answer)])


def _withdraw_earlier(queue: Queue, trajectory: Trajectory, annotator: Annotator) -> int:
    """Withdraw earlier judgments of its session, since users may change their minds, with decisions that upheld them; returns how many."""
    items = Item.objects.filter(queue=queue, a__session_path__session=trajectory.session_path.session_id)
    list(items.select_for_update(of=("self",)).order_by("pk"))  # waits for reviewers who are deciding them
    earlier = KINDS[queue.kind].valid_judgments.filter(item__in=items, annotator=annotator)
    ids = list(earlier.values_list("pk", flat=True))
    Adjudication.objects.valid().filter(queue=queue, upheld__in=ids).update(retracted_at=now())
    earlier.update(retracted_at=now())
    judged = Assignment.objects.filter(item__in=items, annotator=annotator, state=Assignment.State.JUDGED)
    Item.objects.filter(pk__in=judged.values("item")).update(judged=F("judged") - 1)
    return judged.update(state=Assignment.State.UNDONE)


def _queue_of(workspace: Workspace, answer: Scores | InspectionAnswer) -> Queue:
    """The workspace's queue for such answers, locked; its items are never assigned."""
    kind, name, asks = QUEUES[type(answer)]
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)  # concurrent first calls create one queue
    queues = Queue.objects.select_for_update(no_key=True).filter(workspace=workspace, selection={"feedback": str(kind)})
    return queues.first() or Queue.objects.create(
        workspace=workspace,
        name=name,
        kind=kind,
        state=Queue.State.CLOSED,
        is_restricted=True,
        asks=asks.to_json(),
        selection={"feedback": str(kind)},
    )


def _users_of(workspace: Workspace) -> Annotator:
    return Annotator.objects.get_or_create(workspace=workspace, kind=Annotator.Kind.USER, name=USERS, source="")[0]
