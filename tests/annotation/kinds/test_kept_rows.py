"""Cached rows: the same bytes for everybody who may see them, and nothing that belongs to one viewer."""

import re

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from redis.exceptions import ConnectionError

from apps.accounts.models import Role
from apps.annotation.kinds import kept_rows, pair_view
from apps.annotation.models import Assignment, Item, Queue
from apps.common import code_version
from apps.trajectories.comparison import side_by_side
from apps.trajectories.models import Step, Trajectory
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.django_db
LONG = "<b onclick=alert(1)>look</b> " * 500


@pytest.fixture
def queue() -> Queue:
    queue = builders.queue(overlap=2, steps=3)
    # Long results, which the desk fetches on demand: their URLs are specific to a person's desk.
    for step in Step.objects.filter(index=2):
        step.context = [{**step.context[0], "content": LONG}]
        step.save()
    return queue


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each time that rows are really rendered."""
    calls: list[str] = []
    real = pair_view.render_macro
    monkeypatch.setattr(pair_view, "render_macro", lambda name, *rest: calls.append(name) or real(name, *rest))
    return calls


def desk_of(queue: Queue, *, a_is_left: bool = True) -> tuple[Client, Assignment]:
    """A new annotator who holds the queue's only item, with this side on the left."""
    member = factories.member(Role.ANNOTATOR, of=queue.workspace)
    client = Client()
    client.force_login(member.user)
    assert client.get(reverse("annotation:desk", args=[queue.pk])).status_code == 200
    mine = Assignment.objects.get(annotator__user=member.user)
    Assignment.objects.filter(pk=mine.pk).update(a_is_left=a_is_left)
    return client, mine


def rows_of(client: Client, mine: Assignment) -> str:
    """The rows as this annotator sees them, with annotator-specific values replaced by names."""
    page = client.get(reverse("annotation:item", args=[mine.pk]), headers={"Accept": "*/*"}).content.decode()
    (rows,) = re.findall(r'<div class="desk-scroll".*(?=<form)', page, re.S)
    return str(rows)


def test_the_second_who_sees_a_pair_gets_the_very_bytes_with_addresses_of_their_own(queue, rendered):
    (first, theirs), (second, mine) = desk_of(queue), desk_of(queue)
    cache.clear()
    rendered.clear()
    one, other = rows_of(first, theirs), rows_of(second, mine)
    assert len(rendered) == 1
    assert str(theirs.pk) in one
    assert str(theirs.pk) not in other
    assert other == one.replace(str(theirs.pk), str(mine.pk))
    cache.clear()
    assert rows_of(second, mine) == other
    assert "<b onclick" not in other
    assert "&lt;b onclick" in other
    (part,) = set(re.findall(r'(?:href|data-more)="(/[^"?]+/left/\d+/)', other))
    assert second.get(part, headers={"HX-Request": "true"}, data={"at": "before.0"}).status_code == 200


def test_sides_in_the_other_order_are_another_rendering(queue, rendered):
    (first, theirs), (second, mine) = desk_of(queue, a_is_left=True), desk_of(queue, a_is_left=False)
    cache.clear()
    rendered.clear()
    one, other = rows_of(first, theirs), rows_of(second, mine)
    assert len(rendered) == 2
    assert re.findall("lamp|cup", one) == ["lamp", "cup"] * (one.count("lamp"))
    assert re.findall("lamp|cup", other) == ["cup", "lamp"] * (one.count("lamp"))


def test_a_trajectory_that_says_something_else_and_new_code_find_nothing(queue, monkeypatch, rendered):
    client, mine = desk_of(queue)
    before = rows_of(client, mine)
    run = mine.item.a
    Step.objects.filter(trajectory=run, index=1).update(result="A new result.")
    Trajectory.objects.filter(pk=run.pk).update(content_hash=b"e" * 32)
    after = rows_of(client, mine)
    assert "A new result." not in before
    assert "A new result." in after
    rendered.clear()
    assert rows_of(client, mine) == after
    assert rendered == []
    monkeypatch.setattr(kept_rows, "code_version", lambda: b"the next release")
    assert rows_of(client, mine) == after
    assert len(rendered) == 1


def test_nothing_that_tells_who_made_what_or_who_looks_is_kept(queue):
    client, mine = desk_of(queue)
    rows_of(client, mine)
    digest = kept_rows.digest_of("pair", [mine.item.a, mine.item.b])
    whose, _, body = cache.get(kept_rows._slot(digest))
    kept = kept_rows.unpacked(body)
    assert whose == digest
    for secret in (mine.pk, mine.item.a_id, mine.item.b_id, mine.item.a.policy, queue.pk, "csrf", "nonce"):
        assert str(secret) not in kept


def test_another_pair_in_the_same_slot_takes_it_and_what_is_large_is_not_kept(queue, monkeypatch, rendered):
    client, mine = desk_of(queue)
    monkeypatch.setattr(kept_rows, "SLOTS", 1)
    page = rows_of(client, mine)
    cache.set(kept_rows._slot(b""), (b"another", 0, b""))
    assert rows_of(client, mine) == page
    cache.clear()
    monkeypatch.setattr(kept_rows, "MAX_BYTES", 100)
    assert rows_of(client, mine) == page
    assert cache.get(kept_rows._slot(b"")) is None


def test_a_pair_that_one_person_judges_is_not_kept_and_looks_the_same(queue, monkeypatch):
    client, mine = desk_of(queue)
    page = rows_of(client, mine)
    monkeypatch.setattr(kept_rows, "SLOTS", 1)
    Item.objects.update(overlap=1)
    assert rows_of(client, mine) == page
    assert cache.get(kept_rows._slot(b"")) is None
    Item.objects.update(overlap=2)
    assert rows_of(client, mine) == page
    assert cache.get(kept_rows._slot(b"")) is not None


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
    names = ("apps/a.py", "contract/a.py", "templates/a.html", "templates/a.jinja", "static/icons.svg")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    settings.BASE_DIR = tmp_path
    versions = {code_version.code_version.__wrapped__()}
    for name in names:
        (tmp_path / name).write_text("2")
        versions.add(code_version.code_version.__wrapped__())
    assert len(versions) == 6
