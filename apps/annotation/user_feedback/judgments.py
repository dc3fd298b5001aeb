"""Converts user feedback into judgments of annotator kind "user": a thumb and a comment become a rating, an edited answer a correction.

They're stored in closed queues of their own, so they don't affect agreement among annotators, and a dataset version includes them only if its
recipe names these queues. All users of a workspace share one annotator; a session's latest thumb, comment, and edited answer count.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from uuid import UUID

from django.db import OperationalError, transaction
from django.db.models import F
from django.utils.timezone import now

from apps.accounts.models import Workspace
from apps.annotation.desk.assignments import lock_desk
from apps.annotation.kinds import KINDS
from apps.annotation.kinds.answers import CorrectedAction, InspectionAnswer, Scores
from apps.annotation.kinds.kind import Submission
from apps.annotation.kinds.questions import Asks, RatingAsks, StepsAsks
from apps.annotation.models import Annotator, Assignment, Inspection, Item, Queue
from apps.common.query_time_limit import unless_locked
from apps.common.workspace_turns import in_workspace_turns
from apps.gateway.feedback import feedback_to_judge
from apps.gateway.models import Feedback, Path, Session
from apps.trajectories.models import Trajectory

log = logging.getLogger(__name__)

USERS = "Users"
"""The name of the annotator that stands for all users of a workspace."""
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
    new = feedback_to_judge().filter(session=session_id).select_for_update(of=("self",), skip_locked=True)
    if not Feedback.objects.filter(pk__in=[feedback.pk for feedback in new]).update(judged_at=now()):
        return
    path = Path.objects.filter(session=session_id, is_main=True).select_related("trajectory__workspace").first()
    if path is None or path.trajectory.step_count == 0:
        return
    feedback = list(Feedback.objects.filter(session=session_id).order_by("pk"))
    for answer in _answers(feedback, path.trajectory):
        _store(path.trajectory.workspace, path.trajectory, answer)


def _answers(feedback: Sequence[Feedback], trajectory: Trajectory) -> Iterator[Scores | InspectionAnswer]:
    thumb = next((remark.thumb for remark in reversed(feedback) if remark.thumb is not None), None)
    comment = next((remark.comment for remark in reversed(feedback) if remark.comment), "")
    edited = next((remark for remark in reversed(feedback) if remark.edited), None)
    if thumb is not None or comment:
        yield Scores(thumb=thumb, rationale=comment)
    if edited is not None:
        # Only the correction, without labels of earlier steps, which the user didn't see.
        better = CorrectedAction(_step_of(edited, trajectory), {"content": edited.edited})
        yield InspectionAnswer(Inspection.Ending.EDITED, corrections=(better,))


def _step_of(feedback: Feedback, trajectory: Trajectory) -> int:
    """The step of the call that the feedback names, if it's on the main path; else the last one, whose answer the user saw."""
    calls = trajectory.info.get("calls", [])
    call_id = str(feedback.call_id)
    return calls.index(call_id) if call_id in calls[: trajectory.step_count] else trajectory.step_count - 1


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
            "judged": 1,
        },
    )
    if is_new:
        Queue.objects.filter(pk=queue.pk).update(item_count=F("item_count") + 1, items_expected=F("items_expected") + 1)
        desk.judged += 1
        desk.save(update_fields=["judged"])
    else:
        _withdraw_earlier(queue, item, annotator)
    assignment = Assignment.already_judged(queue, item, annotator, now())
    assignment.save()
    KINDS[queue.kind].store([Submission(assignment, answer)])


def _withdraw_earlier(queue: Queue, item: Item, annotator: Annotator) -> None:
    """Withdraw earlier judgments of this session, since users may change their minds."""
    KINDS[queue.kind].valid_judgments.filter(item=item, annotator=annotator).update(retracted_at=now())
    judged = Assignment.objects.filter(item=item, annotator=annotator, state=Assignment.State.JUDGED)
    judged.update(state=Assignment.State.UNDONE)


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
