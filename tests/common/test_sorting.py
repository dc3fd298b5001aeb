"""Every sortable list: its columns and orders, and that each is backed by an index."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.annotation.models import Queue
from apps.annotation.queries import QUEUE_COLUMNS
from apps.arena.models import Experiment
from apps.arena.queries import EXPERIMENT_COLUMNS
from apps.common.sorting import by_age, by_name, sorting_by
from apps.datasets.models import Dataset
from apps.datasets.queries import DATASET_COLUMNS
from apps.policies.models import Policy
from apps.policies.queries import POLICY_COLUMNS
from apps.training.models import Run
from apps.training.queries import RUN_COLUMNS
from apps.trajectories.lists import IMPORT_COLUMNS, TASK_COLUMNS, TRAJECTORY_COLUMNS
from apps.trajectories.models import ImportBatch, Task, Trajectory
from tests import factories

pytestmark = pytest.mark.django_db


def experiment(of, name):
    sides = {f"policy_{side}": factories.policy(of=of) for side in "ab"}
    return Experiment.objects.create(workspace=of, name=name, environment="office", **sides)


LISTS = {
    "training:list": (Run, RUN_COLUMNS, lambda of, name: factories.run(of=of, name=name)),
    "policies:list": (Policy, POLICY_COLUMNS, lambda of, name: factories.policy(of=of, name=name)),
    "datasets:list": (
        Dataset,
        DATASET_COLUMNS,
        lambda of, name: Dataset.objects.create(workspace=of, name=name),
    ),
    "annotation:queues": (Queue, QUEUE_COLUMNS, lambda of, name: factories.queue(of=of, name=name)),
    "arena:list": (Experiment, EXPERIMENT_COLUMNS, experiment),
    "trajectories:imports": (
        ImportBatch,
        IMPORT_COLUMNS,
        lambda of, name: ImportBatch.objects.create(workspace=of, filename=name, size=1),
    ),
}


@pytest.mark.parametrize("address", LISTS)
def test_a_list_sorts_by_name_and_by_age_at_the_same_cost(client, address):
    member = factories.member()
    client.force_login(member.user)
    _, columns, make = LISTS[address]
    for name in ("m-second", "a-first", "z-third"):
        make(member.workspace, name)
    name_column = columns[0]

    def shown(sort: str) -> list[str]:
        page = client.get(reverse(address), {"sort": sort}).content.decode()
        places = {name: page.find(name) for name in ("m-second", "a-first", "z-third")}
        assert min(places.values()) > 0
        return sorted(places, key=lambda name: places[name])

    client.get(reverse(address))  # caches are filled from here on
    costs = set()
    for sort, expected in {
        "": ["z-third", "a-first", "m-second"],
        "oldest": ["m-second", "a-first", "z-third"],
        name_column.first.key: ["a-first", "m-second", "z-third"],
        name_column.second.key: ["z-third", "m-second", "a-first"],
        "no such": ["z-third", "a-first", "m-second"],
    }.items():
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert shown(sort) == expected, sort
        costs.add(len(queries))
    assert len(costs) == 1
    page = client.get(reverse(address), {"sort": name_column.second.key})
    assert 'aria-sort="descending"' in page.content.decode()


SORTED = [
    *((model, columns) for model, columns, _ in LISTS.values()),
    (Task, TASK_COLUMNS),
    (Trajectory, TRAJECTORY_COLUMNS),
]


@pytest.mark.parametrize(("model", "columns"), SORTED, ids=lambda parameter: getattr(parameter, "__name__", ""))
def test_an_index_carries_every_order(model, columns):
    workspace = factories.workspace()
    with connection.cursor() as cursor:
        # Sorting is cheapest for an empty table, so all plans but index scans are disabled.
        for way in ("seqscan", "bitmapscan", "sort", "incremental_sort"):
            cursor.execute(f"SET LOCAL enable_{way} = off")
    for column in columns:
        for order in (column.first, column.second):
            plan = model.objects.filter(workspace=workspace).order_by(*order.fields)[:51].explain()
            assert "Sort" not in plan, (column.title, order.key, plan)
            assert "Index" in plan


def test_a_click_on_a_head_changes_between_two_orders():
    columns = (by_name("Run", "name", "pk"), by_age("Launched"))
    assert sorting_by(columns, "").head("Run") == ("Run", "name", "")
    assert sorting_by(columns, "name").head("Run") == ("Run", "-name", "ascending")
    assert sorting_by(columns, "-name").head("Run") == ("Run", "name", "descending")
    assert sorting_by(columns, "").head("Launched") == ("Launched", "oldest", "descending")
    assert sorting_by(columns, "name").head("Launched") == ("Launched", "", "")


def test_a_narrow_list_offers_the_same_orders_in_a_menu(client):
    member = factories.member()
    client.force_login(member.user)
    factories.run(of=member.workspace)
    page = client.get(reverse("training:list"), {"sort": "name"}).content.decode()
    menu = page[page.index('class="menu sort-menu"') : page.index("</details>", page.index('class="menu sort-menu"'))]
    assert "Sort: By name" in menu
    for order in ("sort=name", "sort=-name", "sort=oldest"):
        assert f"?{order}" in menu
    assert menu.count('aria-current="true"') == 1


def test_sessions_sort_by_age(client):
    member = factories.member()
    client.force_login(member.user)
    older, newer = (factories.session(of=member.workspace) for _ in range(2))

    def shown(sort: str) -> list[int]:
        page = client.get(reverse("gateway:list"), {"sort": sort}).content.decode()
        return [page.index(str(row.pk)) for row in (older, newer)]

    assert shown("oldest") == sorted(shown("oldest"))
    assert shown("") == sorted(shown(""), reverse=True)
