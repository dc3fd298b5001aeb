"""The files of a version: each attempt has its own, and only those of the successful attempt remain."""

from time import sleep

import pytest
from django.core.files.storage import FileSystemStorage, default_storage

from apps.accounts.models import Membership
from apps.annotation.models import Queue
from apps.datasets import freezing
from apps.datasets.models import Dataset, Split, Version
from apps.datasets.recipe import Recipe
from apps.jobs import lifecycle
from tests import factories

pytestmark = pytest.mark.django_db


def request(dataset: Dataset, by: Membership, queue: Queue) -> Version:
    return freezing.request_version(dataset=dataset, recipe=Recipe(queues=(str(queue.pk),)), by=by)


def stored(version: Version) -> set[str]:
    return set(default_storage.listdir(f"datasets/{version.dataset_id}/v{version.number}")[1])


def files_of_attempt(attempt: int) -> set[str]:
    return {f"{split}-{attempt}.{format}" for split in Split.values for format in ("jsonl", "parquet")}


def test_a_killed_attempt_leaves_nothing_behind(
    dataset: Dataset, member: Membership, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt dies after recording its sources and storing files, just before the version becomes final."""
    for _ in range(3):
        factories.preference(2, on=factories.item(of=queue))
    undisturbed = request(dataset, member, queue)
    assert freezing.freeze(undisturbed.pk)
    undisturbed.refresh_from_db()
    recipe = Recipe.from_json(undisturbed.recipe)
    version = freezing.request_version(dataset=dataset, recipe=recipe, by=member)

    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(freezing, "make_card", die)
        with pytest.raises(Killed):
            freezing.freeze(version.pk)
    version.refresh_from_db()
    assert version.state == Version.State.FREEZING
    Version.objects.filter(pk=version.pk).update(leased_until=version.created_at)  # as a minute later

    assert freezing.freeze(version.pk)
    version.refresh_from_db()
    assert version.content_hash == undisturbed.content_hash
    assert version.sources.count() == 3
    assert version.attempt == 2
    assert stored(version) == files_of_attempt(2)


def test_an_attempt_that_was_overtaken_leaves_the_files_of_the_next_alone(
    dataset: Dataset, member: Membership, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    factories.preference(2, on=factories.item(of=queue))
    version = request(dataset, member, queue)
    save = FileSystemStorage.save

    def overtaken(storage: FileSystemStorage, name: str, content: object) -> str:
        if name.endswith("/train-1.parquet"):
            Version.objects.filter(pk=version.pk).update(leased_until=version.created_at)  # as a minute later
            assert freezing.freeze(version.pk)
        return save(storage, name, content)

    monkeypatch.setattr(FileSystemStorage, "save", overtaken)
    freezing.freeze(version.pk)
    version.refresh_from_db()
    assert (version.state, version.attempt) == (Version.State.FROZEN, 2)
    assert stored(version) == files_of_attempt(2)
    with default_storage.open(version.files["jsonl"]["train"]["name"]) as file:
        assert len(file.readlines()) == 1


@pytest.mark.django_db(transaction=True)
def test_a_slow_storage_keeps_its_lease(
    dataset: Dataset, member: Membership, queue: Queue, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WORKER_LEASE_SECONDS = 2
    monkeypatch.setattr(lifecycle, "enqueue", lambda *_: None)
    factories.preference(2, on=factories.item(of=queue))
    version = request(dataset, member, queue)
    save = FileSystemStorage.save

    def slowly(storage: FileSystemStorage, name: str, content: object) -> str:
        sleep(0.5)  # storing six files takes longer than the lease
        assert not freezing.freeze(version.pk)
        return save(storage, name, content)

    monkeypatch.setattr(FileSystemStorage, "save", slowly)
    assert freezing.freeze(version.pk)
    version.refresh_from_db()
    assert (version.state, version.attempt) == (Version.State.FROZEN, 1)
