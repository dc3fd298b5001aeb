"""What an annotator may know about an item and its queue before they answer. Pages, the desk, and REST use these rules.

Trajectories show nothing that reveals which policy generated them or how they ended. Others' judgments are hidden: `OpinionQuerySet.visible_to`
leaves out items on one's own desk. Queues show no numbers that reveal how many items are gold.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from uuid import UUID

from django.db import connection
from django.db.models import Q

from apps.accounts.models import Membership
from apps.annotation.models import Adjudication, Assignment, Item, Queue
from apps.annotation.models.items import open_items_of
from apps.annotation.models.judgments import undecided_for
from apps.trajectories.models import Step, Trajectory
from apps.trajectories.rendering.heads import StepHead
from apps.trajectories.rendering.steps import StepView, step_view


def steps_around(indices_by_trajectory: Mapping[UUID, Collection[int]]) -> Mapping[UUID, dict[int, Step]]:
    """These steps of trajectories with their neighbors, in one query, since a step's result is stored with the next step."""
    condition = Q()
    for trajectory, indices in indices_by_trajectory.items():
        condition |= Q(trajectory=trajectory, index__in={index + offset for index in indices for offset in (-1, 0, 1)})
    steps: dict[UUID, dict[int, Step]] = defaultdict(dict)
    for step in Step.objects.filter(condition):
        steps[step.trajectory_id][step.index] = step
    return steps


def views_of(
    trajectory: Trajectory, steps: Mapping[int, Step], indices: Collection[int], part_url: Callable[[int], str]
) -> dict[int, StepView]:
    """Opened steps by index; `steps` also holds their neighbors."""
    return {index: _view(trajectory, steps, index, part_url(index)) for index in indices if index in steps}


def _view(trajectory: Trajectory, steps: Mapping[int, Step], index: int, part_url: str) -> StepView:
    is_last = index == trajectory.step_count - 1
    view = step_view(
        steps[index],
        following=trajectory.closing if is_last else steps[index + 1].context if index + 1 in steps else [],
        part_url=part_url,
        previous_kind=steps[index - 1].kind if index - 1 in steps else "",
        is_last=is_last,
        blind=True,
    )
    # The agent's own error text may name the model.
    return replace(view, head=unsigned(view.head), error="This turn failed." if view.error else "")


def unsigned(head: StepHead) -> StepHead:
    """Hides times and token counts, which can identify a policy as surely as its name, and the line about a failure: it may be the agent's own error
    text. A tool's is in its result.
    """
    result = "" if head.is_error else head.result
    return replace(head, result=result, reward=None, seconds=None, prompt_tokens=None, completion_tokens=None)


def shows_models(assignment: Assignment) -> bool:
    """Whether annotators see the models' answers on an item at their desk."""
    return assignment.queue.shows_machines


def is_on_desk(item: Item, member: Membership) -> bool:
    """Whether this member holds the item and hasn't answered: until then they see no judgments of it, whatever their role."""
    return open_items_of(member).filter(item=item).exists()


def blind_to(items: Collection[Item], member: Membership) -> set[int]:
    """The items whose policies and judgments must be hidden from this member, a reviewer who may have to decide them."""
    return set(undecided_for(member).filter(pk__in=[item.pk for item in items]).values_list("pk", flat=True))


def is_review_blind(queue: Queue, decision: Adjudication | None, *, reviewers_answer: bool) -> bool:
    """Whether a reviewer decides an item without seeing the judgments. They can't if the decision is which judgment to uphold."""
    return queue.blind_review and reviewers_answer and decision is None


COUNTS = ("overlap", "item_count", "items_expected")
"""Queue fields hidden from annotators, since they reveal how many items are gold."""


def may_know_counts(member: Membership) -> bool:
    return member.is_reviewer


# Runs with every judgment; in raw SQL because the ORM takes ten times as long to build the statement as the query takes.
ELSEWHERE = """
SELECT g.queue_id, count(DISTINCT g.item_id) - count(*) FILTER (WHERE g.user_id = %(user)s)
FROM annotation_itemassignee g
WHERE g.queue_id = ANY(%(queues)s) AND NOT EXISTS (
    SELECT FROM annotation_assignment s JOIN annotation_annotator w ON w.id = s.annotator_id
    WHERE s.item_id = g.item_id AND w.user_id = %(user)s AND s.state = 'judged')
GROUP BY 1
"""


def assigned_elsewhere(queues: Collection[UUID], user: int | None) -> dict[UUID, int]:
    """For each queue, the number of items assigned to other people only, without those this person has judged."""
    with connection.cursor() as cursor:
        cursor.execute(ELSEWHERE, {"queues": list(queues), "user": user})
        return dict(cursor.fetchall())


def left_for(queue: Queue, judged: int, mine: int, golds: int, elsewhere: int = 0) -> int:
    """Upper bound of the items that one person, who judged `mine` of `judged` and `golds` gold items, can still judge.

    elsewhere: items that are assigned to others only.

    It decreases with each of their answers, gold or not, so it may be shown where `COUNTS` aren't.
    """
    remaining = min(queue.slots - judged, queue.item_count - mine - elsewhere)
    return remaining + max(queue.gold_count - golds, 0) if remaining > 0 else 0
