"""In a new workspace, labeling can start right away, with sample trajectories or its own."""

import pytest
from django.urls import reverse

from apps.accounts.models import Membership, Role
from apps.annotation.models import Item, Queue
from apps.trajectories.models import Trajectory
from tests import factories
from tests.accounts.clients import as_

pytestmark = pytest.mark.django_db


@pytest.fixture
def researcher() -> Membership:
    return factories.member(Role.RESEARCHER)


def labeling_of(member: Membership) -> Queue:
    answer = as_(member).post(reverse("try_labeling"))
    queue = Queue.objects.get(workspace=member.workspace)
    assert (answer.status_code, answer["Location"]) == (302, reverse("annotation:desk", args=[queue.pk]))
    return queue


def test_an_empty_workspace_gets_ten_sample_pairs_that_can_be_judged_at_once(researcher: Membership):
    queue = labeling_of(researcher)
    assert (queue.kind, queue.state, queue.item_count) == ("pairwise", "open", 10)
    runs = Trajectory.objects.filter(workspace=researcher.workspace)
    assert {tuple(tags) for tags in runs.values_list("tags", flat=True)} == {("sample",)}
    assert all(item.a.task_id == item.b.task_id for item in Item.objects.filter(queue=queue))
    desk = as_(researcher).get(reverse("annotation:desk", args=[queue.pk])).content.decode()
    assert "data-pair" in desk


def test_a_second_press_leads_to_the_same_queue(researcher: Membership):
    assert labeling_of(researcher) == labeling_of(researcher)
    assert Trajectory.objects.filter(workspace=researcher.workspace).count() == 20


def test_own_trajectories_of_a_task_become_pairs(researcher: Membership):
    task = factories.task(of=researcher.workspace)
    own = {factories.trajectory(of=task, success=success).pk for success in (True, False)}
    factories.trajectory(of=factories.task(of=researcher.workspace))
    item = Item.objects.get(queue=labeling_of(researcher))
    assert {item.a_id, item.b_id} == own


def test_own_trajectories_that_share_no_task_are_rated(researcher: Membership):
    own = [factories.trajectory(of=factories.task(of=researcher.workspace)).pk for _ in range(3)]
    queue = labeling_of(researcher)
    assert queue.kind == "rating"
    assert list(queue.items.order_by("position").values_list("a", flat=True)) == own[::-1]


def test_trajectories_of_others_are_not_shown(researcher: Membership):
    factories.trajectory(of=factories.task())
    queue = labeling_of(researcher)
    assert not Item.objects.filter(queue=queue).exclude(a__workspace=researcher.workspace).exists()


def test_annotators_make_no_queue():
    annotator = factories.member(Role.ANNOTATOR)
    assert as_(annotator).post(reverse("try_labeling")).status_code == 404
