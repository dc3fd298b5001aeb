"""The rows that benchmarks insert with SQL match the current tables. Performance is only measured by `make bench`."""

from pathlib import Path

import pytest

from apps.annotation.models import Preference, Queue
from apps.trajectories.models import Step, Trajectory
from bench import freezing, imports, labeling, lists
from bench.columns import give_defaults
from bench.harness import Size
from tests import factories

pytestmark = pytest.mark.django_db
SIZE = Size(20)


@pytest.fixture(autouse=True)
def defaults(db: None) -> None:
    give_defaults()


def test_judged_pairs_can_be_frozen() -> None:
    member, queue = freezing.fill(20, SIZE)
    assert Preference.objects.filter(queue=queue).count() == 20
    assert sum(freezing.frozen(member, queue).row_counts.values()) == 20


def test_a_queue_of_pairs_can_be_labeled() -> None:
    workspace = factories.workspace()
    labeling.make_runs(workspace, SIZE)
    queue = labeling.make_queue(workspace, "pairs", 20)
    labeling._judge_first_half(queue, [labeling.member(workspace, 1)], 10)
    assert Queue.objects.get(pk=queue.pk).items.filter(judged=1).count() == 10
    assert Step.objects.count() == 40 * SIZE.steps


def test_a_workspace_is_filled_with_trajectories() -> None:
    lists.fill(factories.workspace(), 40)
    assert Trajectory.objects.count() == 40


def test_the_stages_of_an_import_are_those_that_it_has(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    imports.write_file(path, SIZE)
    assert all(microseconds > 0 for _, microseconds in imports.stages(path, SIZE.steps))
