"""Deletions that are concurrent with new references to the target."""

from __future__ import annotations

from threading import Thread
from time import sleep
from types import SimpleNamespace

import pytest
from django.db import IntegrityError, connection, transaction

from apps.accounts.models import Role
from apps.annotation.models import Queue
from apps.annotation.queues.queue_lifecycle import close_queue
from apps.datasets import freezing
from apps.datasets.models import Version
from apps.datasets.recipe import Recipe
from apps.removal import deletion, removal_job
from apps.removal.models import Removal
from apps.trajectories.models import Trajectory
from tests import factories
from tests.annotation import builders
from tests.locks import somebody_waits
from tests.trajectories.uploads import imported, lines, rich


@pytest.mark.django_db(transaction=True)
def test_a_deletion_waits_for_a_version_that_is_being_asked_for_and_then_finds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("apps.jobs.lifecycle.enqueue", lambda *_: None)
    ada = factories.member(Role.RESEARCHER)
    queue = builders.queue(of=ada.workspace)
    factories.preference(on=queue.items.get())
    close_queue(queue=queue, by=None)
    dataset = freezing.create_dataset(name="shop", description="", license="", by=ada)
    refused = []

    def delete() -> None:
        try:
            deletion.delete(queue)
        except deletion.StillNeeded as refusal:
            refused.append(str(refusal))
        finally:
            connection.close()

    deleting = Thread(target=delete)
    with transaction.atomic():
        version = freezing.request_version(dataset=dataset, recipe=Recipe(queues=(str(queue.pk),)), by=ada)
        deleting.start()
        while deleting.is_alive() and not somebody_waits():
            sleep(0.02)
        assert deleting.is_alive()  # it waits: the version isn't visible yet, but the queue must not be deleted
    deleting.join(timeout=60)
    assert refused == [f"It can't be deleted: dataset version {version} is being frozen."]
    assert (Queue.objects.count(), Version.objects.count()) == (1, 1)


@pytest.mark.django_db
def test_who_asks_for_what_is_deleted_in_this_moment_gets_that_deletion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.jobs.lifecycle.enqueue", lambda *_: None)
    ada = factories.member(Role.RESEARCHER)
    task = factories.task(of=ada.workspace)
    first = removal_job.ask_for_removal(thing="task", target=task, by=ada)

    def over_meanwhile(*_: object, **__: object) -> None:
        removal_job.remove(first.pk)
        raise IntegrityError

    monkeypatch.setattr(Removal.objects, "create", over_meanwhile)
    assert removal_job.ask_for_removal(thing="task", target=task, by=ada) == first


@pytest.mark.django_db(transaction=True)
def test_a_file_that_the_storage_keeps_does_not_keep_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Django once failed while logging the failure, so the other files stayed although no row referred to them."""
    ada = factories.member(Role.RESEARCHER)
    batches = [imported(lines(rich(number)), ada.workspace) for number in range(3)]
    names = {batch.file.name for batch in batches}
    tried: list[str] = []

    def fails(name: str) -> None:
        tried.append(name)
        raise OSError("The storage is down.")

    monkeypatch.setattr(deletion, "default_storage", SimpleNamespace(delete=fails))
    with transaction.atomic():
        deletion.delete_trajectories(Trajectory.objects.filter(import_batch__in=batches).values_list("pk", flat=True))
    assert set(tried) == names
