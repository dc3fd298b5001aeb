"""What somebody who judges may know of an item and its queue before they answer. Pages, the desk, and REST ask here.

Of its trajectories, nothing that tells who made them or how they ended. Of what others said of it, nothing: `OpinionQuerySet.visible_to`
leaves out what lies on one's own desk. Of its queue, no number that tells which items are gold.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from uuid import UUID

from django.db import connection
from django.db.models import Q

from apps.accounts.models import Membership
from apps.annotation.models import Adjudication, Assignment, Item, Queue
from apps.annotation.models.items import on_desk_of
from apps.annotation.models.judgements import undecided_for
from apps.trajectories.models import Step, Trajectory
from apps.trajectories.rendering.steps import StepHead, StepView, step_view

# The trajectories ---------------------------------------------------------------------------------------------------------------


def steps_around(wanted: Mapping[UUID, Collection[int]]) -> Mapping[UUID, dict[int, Step]]:
    """These steps of trajectories with the ones before and after, in one query: what came back for a step is stored with the next."""
    asked = Q()
    for run, indices in wanted.items():
        asked |= Q(trajectory=run, index__in={index + offset for index in indices for offset in (-1, 0, 1)})
    found: dict[UUID, dict[int, Step]] = defaultdict(dict)
    for step in Step.objects.filter(asked):
        found[step.trajectory_id][step.index] = step
    return found


def views_of(
    run: Trajectory, steps: Mapping[int, Step], wanted: Collection[int], part_url: Callable[[int], str]
) -> dict[int, StepView]:
    """Opened steps by index; `steps` holds their neighbors, too."""
    return {index: _view(run, steps, index, part_url(index)) for index in wanted if index in steps}


def _view(run: Trajectory, steps: Mapping[int, Step], index: int, part_url: str) -> StepView:
    is_last = index == run.step_count - 1
    view = step_view(
        steps[index],
        following=run.closing if is_last else steps[index + 1].context if index + 1 in steps else [],
        part_url=part_url,
        previous_kind=steps[index - 1].kind if index - 1 in steps else "",
        is_last=is_last,
        blind=True,
    )
    # What the agent's own program noted of an error may name the model that it called.
    return replace(view, head=unsigned(view.head), error="This turn failed." if view.error else "")


def unsigned(head: StepHead) -> StepHead:
    """Times and token counts can give a policy away as surely as its name."""
    return replace(head, reward=None, seconds=None, prompt_tokens=None, completion_tokens=None)


# What others said -------------------------------------------------------------------------------------------------------


def shows_models(assignment: Assignment) -> bool:
    """Whether people read on their desk what models said of an item."""
    return assignment.queue.shows_machines


def is_on_desk(item: Item, member: Membership) -> bool:
    """Whether this member has the item and hasn't answered: until then they read nothing that was said of it, whatever their role."""
    return on_desk_of(member).filter(item=item).exists()


def blind_to(items: Collection[Item], member: Membership) -> set[int]:
    """Of these items, those of which this member may not know who made the trajectories or what was said: a reviewer who may have to decide."""
    return set(undecided_for(member).filter(pk__in=[item.pk for item in items]).values_list("pk", flat=True))


def is_review_blind(queue: Queue, decision: Adjudication | None, *, reviewers_answer: bool) -> bool:
    """Whether a reviewer decides an item without knowing what was said. Where they say whose judgment stands, they have to read it."""
    return queue.blind_review and reviewers_answer and decision is None


# The queue --------------------------------------------------------------------------------------------------------------

COUNTS = ("overlap", "item_count", "items_expected")
"""What annotators aren't told of a queue: with these they could tell how many items are gold."""


def may_know_counts(member: Membership) -> bool:
    return member.is_reviewer


# Asked with every judgment, so it costs no more than its index: the ORM would take ten times as long to write the statement.
ELSEWHERE = """
SELECT g.queue_id, count(DISTINCT g.item_id) - count(*) FILTER (WHERE g.user_id = %(user)s)
FROM annotation_itemassignee g
WHERE g.queue_id = ANY(%(queues)s) AND NOT EXISTS (
    SELECT FROM annotation_assignment s JOIN annotation_annotator w ON w.id = s.annotator_id
    WHERE s.item_id = g.item_id AND w.user_id = %(user)s AND s.state = 'judged')
GROUP BY 1
"""


def assigned_elsewhere(queues: Collection[UUID], user: int | None) -> dict[UUID, int]:
    """By queue, how many items are for named people of whom this person isn't one; what they have judged is left out."""
    with connection.cursor() as cursor:
        cursor.execute(ELSEWHERE, {"queues": list(queues), "user": user})
        return dict(cursor.fetchall())


def left_for(queue: Queue, judged: int, mine: int, golds: int, elsewhere: int = 0) -> int:
    """The most that one person, who judged `mine` of `judged` and `golds` gold items, can still judge: one an item.

    elsewhere: items that are for others only.

    It goes down with each of their answers, whatever it was about, so it may be told where `COUNTS` aren't.
    """
    left = min(queue.places - judged, queue.item_count - mine - elsewhere)
    return left + max(queue.gold_count - golds, 0) if left > 0 else 0
