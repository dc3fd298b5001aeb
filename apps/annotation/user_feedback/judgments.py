"""Feedback of users becomes judgments of the kind "user": a thumb and a comment a rating, an edited answer a correction.

They lie in closed queues of their own, so they're no part of what annotators agree on, and a dataset version takes them only where its recipe
names these queues. All users of a workspace are one annotator, and of a session their latest thumb, comment, and edited answer count.
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
from apps.annotation.kinds.answers import BetterAction, Scores, Walk
from apps.annotation.kinds.kind import Place
from apps.annotation.kinds.questions import Asks, RatingAsks, StepsAsks
from apps.annotation.models import Annotator, Assignment, Inspection, Item, Queue
from apps.gateway.feedback import feedback_to_judge
from apps.gateway.models import Feedback, Path
from apps.trajectories.models import Trajectory

log = logging.getLogger(__name__)

USERS = "Users"
"""What the annotator is called that all users of a workspace are."""
AT_A_TIME = 200
QUEUES: dict[type[Scores | Walk], tuple[Queue.Kind, str, Asks]] = {
    Scores: (Queue.Kind.RATING, "Feedback from users", RatingAsks(questions=(), marks=False)),
    Walk: (Queue.Kind.STEPS, "Answers edited by users", StepsAsks(questions=(), every_step=False)),
}


def judge_feedback() -> None:
    """Make judgments of what users said of sessions that have ended."""
    for session_id in list(feedback_to_judge().values_list("session", flat=True).distinct()[:AT_A_TIME]):
        try:
            judge(session_id)
        except OperationalError:
            raise  # the database is away, or ended a deadlock: it's tried again in seconds
        except Exception:  # that of one session must not keep the others from being judged
            log.exception("The feedback of session %s became no judgment", session_id)
            Feedback.objects.filter(session=session_id, judged_at=None).update(judged_at=now())


@transaction.atomic
def judge(session_id: UUID) -> None:
    """Make judgments of all that was said of a session, the latest of each kind. Called twice, they're made once.

    Of a session that became no trajectory none is made.
    """
    new = feedback_to_judge().filter(session=session_id).select_for_update(of=("self",), skip_locked=True)
    if not Feedback.objects.filter(pk__in=[each.pk for each in new]).update(judged_at=now()):
        return
    path = Path.objects.filter(session=session_id, is_main=True).select_related("trajectory__workspace").first()
    if path is None or path.trajectory.step_count == 0:
        return
    said = list(Feedback.objects.filter(session=session_id).order_by("pk"))
    for answer in _answers(said, path.trajectory):
        _store(path.trajectory.workspace, path.trajectory, answer)


def _answers(said: Sequence[Feedback], run: Trajectory) -> Iterator[Scores | Walk]:
    thumb = next((each.thumb for each in reversed(said) if each.thumb is not None), None)
    comment = next((each.comment for each in reversed(said) if each.comment), "")
    edited = next((each for each in reversed(said) if each.edited), None)
    if thumb is not None or comment:
        yield Scores(thumb=thumb, rationale=comment)
    if edited is not None:
        # The message that the policy should have sent, and no word on the steps before: the user saw none of them.
        better = BetterAction(_step_of(edited, run), {"content": edited.edited})
        yield Walk(Inspection.Ending.EDITED, corrections=(better,))


def _step_of(feedback: Feedback, run: Trajectory) -> int:
    """Of the call that it names, where that's on the main path; else the last one, whose answer the user saw."""
    calls = run.info.get("calls", [])
    named = str(feedback.call_id)
    return calls.index(named) if named in calls[: run.step_count] else run.step_count - 1


def _store(workspace: Workspace, run: Trajectory, answer: Scores | Walk) -> None:
    queue, annotator = _queue_of(workspace, answer), _users_of(workspace)
    desk = lock_desk(queue=queue.pk, annotator=annotator.pk)
    item, is_new = Item.objects.get_or_create(
        queue=queue,
        a=run,
        defaults={
            "kind": queue.kind,
            "task_id": run.task_id,
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
        _take_back(queue, item, annotator)
    moment = now()
    assignment = Assignment.objects.create(
        workspace=workspace,
        queue=queue,
        item=item,
        annotator=annotator,
        state=Assignment.State.JUDGED,
        a_is_left=True,
        leased_until=moment,
        closed_at=moment,
    )
    KINDS[queue.kind].store([Place(assignment, answer)])


def _take_back(queue: Queue, item: Item, annotator: Annotator) -> None:
    """What was said before of this session: users change their minds."""
    KINDS[queue.kind].standing.filter(item=item, annotator=annotator).update(retracted_at=now())
    judged = Assignment.objects.filter(item=item, annotator=annotator, state=Assignment.State.JUDGED)
    judged.update(state=Assignment.State.UNDONE)


def _queue_of(workspace: Workspace, answer: Scores | Walk) -> Queue:
    """The workspace's queue for such answers, locked; nobody is given its items."""
    kind, name, asks = QUEUES[type(answer)]
    Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)  # two first ones make one queue
    found = Queue.objects.select_for_update(no_key=True).filter(workspace=workspace, selection={"feedback": str(kind)})
    return found.first() or Queue.objects.create(
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
