"""Counts and names in list rows link to what they count or name."""

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role
from apps.annotation.models import Queue
from apps.datasets import freezing
from apps.datasets.recipe import Recipe
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db


def test_counts_in_the_rows_of_lists_are_links() -> None:
    member = factories.member(Role.OWNER)
    queue: Queue = builders.queue(of=member.workspace)
    preference = factories.preference(1, on=queue.items.get())
    dataset = freezing.create_dataset(name="Pairs", description="", license="", by=member)
    recipe = Recipe(queues=(str(queue.pk),), train=100, validation=0, test=0)
    version = freezing.request_version(dataset=dataset, recipe=recipe, by=member)
    assert freezing.freeze(version.pk)
    run = preference.item.a
    run.tags = ["a tag"]
    run.save(update_fields=["tags"])
    client = Client()
    client.force_login(member.user)
    expected = {
        "annotation:queues": [
            f'<a href="{reverse("annotation:items", args=[queue.pk])}">1</a>',
            f'<a href="{reverse("annotation:quality", args=[queue.pk])}">',
        ],
        "datasets:list": [
            f'<a href="{reverse("datasets:dataset", args=[dataset.pk])}">1</a>',
            f'<a href="{reverse("datasets:version", args=[dataset.pk, 1])}">version 1</a>',
        ],
        "trajectories:list": ["/trajectories/?tag=a%20tag"],
        "trajectories:tasks": [f'<a href="{reverse("trajectories:list")}?task={run.task_id}">2</a>'],
    }
    for name, links in expected.items():
        page = client.get(reverse(name)).content.decode()
        assert [link for link in links if link not in page] == [], name
    items = client.get(reverse("annotation:items", args=[queue.pk])).content.decode()
    assert reverse("annotation:person", args=[queue.pk, preference.annotator_id]) in items
