"""Rule annotators answer like anybody else, in queues of pairs and of single trajectories."""

import pytest

from apps.annotation.models import Preference, Queue, Rating
from apps.annotation.queues.queue_lifecycle import create_queue_of_trajectories
from apps.demo.rule_annotators import judge_by_rule
from tests import factories

pytestmark = pytest.mark.django_db


def test_a_rule_accepts_single_runs_and_is_shown_as_a_rule():
    task = factories.task()
    workspace = task.workspace
    clean, failed = factories.trajectory(of=task), factories.trajectory(of=task, error_count=1)
    queue = create_queue_of_trajectories(
        kind=Queue.Kind.RATING, trajectories=[clean, failed], workspace=workspace, created_by=None, name="runs"
    )
    assert not judge_by_rule(queue=queue, rule="No failed call", share=1.0, at_most=1)
    assert judge_by_rule(queue=queue, rule="No failed call", share=1.0, at_most=1)
    thumbs = {rating.item.a_id: rating.thumb for rating in Rating.objects.select_related("item")}
    assert thumbs == {clean.pk: 1, failed.pk: -1}
    assert {rating.annotator.kind for rating in Rating.objects.select_related("annotator")} == {"rule"}


def test_a_rule_judges_its_share_of_the_pairs_and_not_one_twice():
    pair = factories.item(of=factories.queue(state=Queue.State.OPEN, item_count=1))
    for _ in range(2):
        assert judge_by_rule(queue=pair.queue, rule="Outcome first", share=1.0, at_most=10)
    assert Preference.objects.filter(queue=pair.queue).count() == 1
