"""The desk's pair: looking at it takes as long whoever has seen it before, and what is cached is little."""

import re
from collections.abc import Callable

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from redis.exceptions import ConnectionError

from apps.accounts.models import Role
from apps.annotation.kinds import pair_view
from apps.annotation.models import Assignment, Queue
from apps.common import code_version
from apps.trajectories.comparison import side_by_side
from apps.trajectories.models import Step, Trajectory
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db
LONG = pair_view.OPENED + 3
"""Steps of a trajectory whose comparison is cached."""


@pytest.fixture
def queue() -> Queue:
    return builders.queue(overlap=2, steps=LONG)


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each time that two trajectories are really compared, or their rows rendered."""
    calls: list[str] = []

    def watch(owner: object, name: str) -> None:
        real: Callable[..., object] = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given: calls.append(name) or real(*given))

    watch(side_by_side, "compare")
    watch(pair_view, "render_macro")
    return calls


def desk_of(queue: Queue) -> tuple[Client, Assignment]:
    """A new annotator who holds the queue's only item, with its first trajectory on the left."""
    member = factories.member(Role.ANNOTATOR, of=queue.workspace)
    client = Client()
    client.force_login(member.user)
    assert client.get(reverse("annotation:desk", args=[queue.pk])).status_code == 200
    Assignment.objects.filter(annotator__user=member.user).update(a_is_left=True)
    return client, Assignment.objects.get(annotator__user=member.user)


def rows_of(client: Client, mine: Assignment) -> str:
    page = client.get(reverse("annotation:item", args=[mine.pk]), headers={"Accept": "*/*"}).content.decode()
    (rows,) = re.findall(r'<div class="desk-scroll".*(?=<form)', page, re.S)
    return str(rows)


def test_a_pair_that_somebody_else_has_seen_takes_as_much_work_as_a_new_one(queue, compared):
    # Otherwise gold items would come faster than others, since everybody gets them.
    desks = [desk_of(queue), desk_of(queue)]
    cache.clear()
    work = []
    for client, mine in desks:
        compared.clear()
        rows_of(client, mine)
        work.append([*compared])
    assert work == [["compare", "render_macro"]] * 2


def test_whoever_looks_again_and_loads_more_rows_does_not_wait_for_the_comparison(queue, compared):
    client, mine = desk_of(queue)
    page = rows_of(client, mine)
    compared.clear()
    assert rows_of(client, mine) == page
    assert client.get(reverse("annotation:rows", args=[mine.pk, 0]), headers={"HX-Request": "true"}).status_code == 200
    assert "compare" not in compared


def test_a_trajectory_that_says_something_else_and_new_code_are_compared_anew(queue, monkeypatch, compared):
    client, mine = desk_of(queue)
    rows_of(client, mine)
    Step.objects.filter(trajectory=mine.item.a, index=1).update(result="A new result.")
    Trajectory.objects.filter(pk=mine.item.a_id).update(content_hash=b"e" * 32)
    assert "A new result." in rows_of(client, mine)
    compared.clear()
    monkeypatch.setattr(pair_view, "code_version", lambda: b"the next release")
    rows_of(client, mine)
    assert "compare" in compared


def test_what_is_cached_of_all_pairs_is_limited(queue, monkeypatch, compared):
    monkeypatch.setattr(pair_view, "SLOTS", 1)
    (first, theirs), (second, mine) = desk_of(queue), desk_of(queue)
    rows_of(first, theirs)
    rows_of(second, mine)
    compared.clear()
    rows_of(first, theirs)  # another pair had the slot
    assert "compare" in compared
    cache.clear()
    monkeypatch.setattr(pair_view, "MAX_BYTES", 100)
    rows_of(second, mine)
    assert cache.get("compared:0") is None


def test_steps_that_were_read_at_once_compare_as_those_that_are_read_one_by_one(queue):
    item = queue.items.get()
    item.a.steps.filter(index=1).update(action=b"0" * 16)
    read = pair_view._all_steps(item.a, item.b)
    assert side_by_side.compare_read(item.a, item.b, read) == side_by_side.compare(item.a, item.b)


def test_the_desk_shows_a_pair_without_valkey(queue, monkeypatch):
    client, mine = desk_of(queue)
    page = rows_of(client, mine)

    def away(*_: object, **__: object) -> None:
        raise ConnectionError("Valkey is away.")

    for name in ("get", "set"):
        monkeypatch.setattr(f"apps.common.cache.cache.{name}", away, raising=False)
    assert rows_of(client, mine) == page


def test_the_code_version_is_one_of_what_makes_pages(tmp_path, settings):
    names = ("apps/a.py", "contract/a.py")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    settings.BASE_DIR = tmp_path
    versions = {code_version.code_version.__wrapped__()}
    for name in names:
        (tmp_path / name).write_text("2")
        versions.add(code_version.code_version.__wrapped__())
    assert len(versions) == 3
