"""A worker is killed while it freezes a version: another one starts over, and the result is the same."""

import time
from collections.abc import Callable

import psycopg
from django.db import connection

from apps.datasets import freezing
from apps.datasets.freezing import VERSIONS
from apps.datasets.models import Version, VersionPreference
from apps.datasets.recipe import Recipe
from apps.jobs import lifecycle
from tests import factories
from tests.live import LiveStack


def wait_for(version: Version, what: Callable[[Version], bool]) -> None:
    for _ in range(600):
        version.refresh_from_db()
        if what(version):
            return
        time.sleep(0.1)
    raise AssertionError(f"After a minute the version is {version.state}, attempt {version.attempt}: {version.error}")


def test_a_version_survives_the_death_of_its_worker(live_stack: LiveStack) -> None:
    member = factories.member()
    queue = factories.queue(of=member.workspace)
    for strength in (1, 2, 3):
        factories.preference(strength, on=factories.item(of=queue))
    at = connection.settings_dict
    address = {"dbname": at["NAME"], "user": at["USER"], "host": at["HOST"], "port": at["PORT"]}
    dataset = freezing.create_dataset(name="shop", description="", license="", by=member)
    with psycopg.connect(**address) as other:
        other.execute(
            "LOCK TABLE datasets_tasksplit IN ACCESS EXCLUSIVE MODE"
        )  # blocks the worker in the middle of its work
        version = Version.objects.create(
            workspace=member.workspace,
            dataset=dataset,
            number=1,
            recipe=Recipe(queues=(str(queue.pk),), until=dataset.created_at.replace(year=2100)).to_json(),
        )
        lifecycle.queue(version)
        wait_for(version, lambda it: it.attempt == 1)
        live_stack.programs["worker-default"].process.kill()
        live_stack.programs["worker-default"].process.wait()

    live_stack.restart("worker-default")
    Version.objects.filter(pk=version.pk).update(leased_until=version.created_at)  # its lease expires
    lifecycle.recover(VERSIONS)

    wait_for(version, lambda it: not it.is_active)
    assert version.state == Version.State.FROZEN, version.error
    assert version.attempt == 2
    assert sum(version.row_counts.values()) == 3
    assert VersionPreference.objects.filter(version=version).count() == 3
