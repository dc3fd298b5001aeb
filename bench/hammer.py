"""Stress test: 200 annotators on one queue over HTTP, who skip, undo, submit twice, open second tabs, and walk away.

The database is checked afterwards: every item has exactly the requested judgments, by different people; every acknowledged
answer is stored exactly once; nobody was shown an item again after judging it; abandoned items were given out again.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from django.db import connection, connections
from django.db.models import Count, F

from apps.accounts.models import Membership, Workspace
from apps.annotation.models import Assignment, Item, Preference, Queue
from bench.harness import Figure, Size, Stopwatch, at_once, serving, settle
from bench.labeling import Annotator, make_queue, make_runs, member

ANNOTATORS = 200
OVERLAP = 3
MAX_ITEMS = 600
LEASE_SECONDS = 30
"""The minimum: an abandoned item is blocked for this long."""
SKIPS, WALKS_AWAY, SUBMITS_TWICE, UNDOES, SECOND_TAB = 0.03, 0.02, 0.1, 0.05, 0.1
PATIENCE_SECONDS = 400.0


@dataclass
class Tally:
    """What the annotators saw, accumulated over all of them."""

    acknowledged: list[str] = field(default_factory=list)
    """Assignments with an answer that was acknowledged and not undone."""
    walked_away: list[str] = field(default_factory=list)
    second_tabs: int = 0
    different_in_tabs: int = 0
    next: Stopwatch = field(default_factory=Stopwatch)
    submit: Stopwatch = field(default_factory=Stopwatch)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Audit(NamedTuple):
    """The state of the database afterwards. All but `judgments` and `came_back` must be 0."""

    judgments: int
    wrong_items: int
    """Items with too many or too few judgments, or with inconsistent place counts."""
    twice: int
    """Second judgments of the same item by the same person."""
    lost: int
    """Acknowledged answers that aren't stored."""
    unasked: int
    """Stored judgments that were never acknowledged."""
    own_again: int
    """Assignments of an item to somebody who had already judged it."""
    different_in_tabs: int
    came_back: int
    """Abandoned items that are fully judged."""


def measure(size: Size) -> Iterator[Figure]:
    workspace = Workspace.objects.create(name="bench", slug="bench")
    members = [member(workspace, n) for n in range(ANNOTATORS)]
    items = min(size.items, MAX_ITEMS)
    make_runs(workspace, size._replace(items=items, steps=2))
    queue = make_queue(workspace, "hammered", items, overlap=OVERLAP)
    Queue.objects.filter(pk=queue.pk).update(lease_seconds=LEASE_SECONDS)
    settle()
    with serving() as server:
        start = time.perf_counter()
        tally = hammer(server.url, members, queue)
        duration = time.perf_counter() - start
    audit = audit_of(queue, tally)
    circumstances = {"annotators": ANNOTATORS, "items": items, "overlap": OVERLAP}
    expected = items * OVERLAP
    yield Figure(
        name="hammer.missing", value=abs(expected - audit.judgments), unit="judgments", limit=0, with_=circumstances
    )
    for name in ("wrong_items", "twice", "lost", "unasked", "own_again", "different_in_tabs"):
        yield Figure(name=f"hammer.{name}", value=getattr(audit, name), unit="", limit=0, with_=circumstances)
    walked = Assignment.objects.filter(pk__in=tally.walked_away).values("item").distinct().count()
    yield Figure(
        name="hammer.came_back", value=audit.came_back, unit="items", limit=walked, better="higher", with_=circumstances
    )
    yield Figure(
        name="hammer.throughput",
        value=len(tally.submit.samples) / duration,
        unit="submits/s",
        better="higher",
        with_=circumstances,
    )
    for name, watch in (("next", tally.next), ("submit", tally.submit)):
        yield Figure(name=f"hammer.{name}.p95", value=watch.p95(), unit="ms", with_=circumstances)


def hammer(url: str, members: Sequence[Membership], queue: Queue, *, seed: int = 0) -> Tally:
    """Run all annotators concurrently until the queue has all its judgments."""
    tally = Tally()
    people = [Browser(url, member, queue, tally, random.Random(f"{seed} {n}")) for n, member in enumerate(members)]
    at_once(len(people), lambda n: people[n].work())
    connections.close_all()
    return tally


class Browser(Annotator):
    """One person with random, seeded behavior."""

    def __init__(self, url: str, membership: Membership, queue: Queue, tally: Tally, chance: random.Random) -> None:
        super().__init__(url, membership, queue)
        self.tally, self.chance = tally, chance

    def _ask(self, method: str, path: str, body: str | None) -> bytes:
        """Like a browser: if the server closed the idle connection, reconnect and repeat the request."""
        try:
            return super()._ask(method, path, body)
        except (http.client.RemoteDisconnected, ConnectionError):
            self.connection.close()
            return super()._ask(method, path, body)

    def work(self) -> None:
        """Work until nothing is left for anybody: while others hold places, they may become free again."""
        ends = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < ends:
            with self.tally.next.lap():
                reply = self.post(f"/desk/{self.queue.pk}/next/", {})
            address = reply["item"]
            if isinstance(address, str):
                self.handle(address)
            elif reply["progress"]["left"] == 0:  # type: ignore[index]  # decoded JSON
                return
            else:
                time.sleep(self.chance.uniform(0.5, 1.5))
        raise RuntimeError(f"Places were still held after {PATIENCE_SECONDS:.0f} s.")

    def handle(self, address: str) -> None:
        draw = self.chance.random
        if draw() < SECOND_TAB:
            next_item = self.post(f"/desk/{self.queue.pk}/next/", {})["item"]
            with self.tally.lock:
                self.tally.second_tabs += 1
                self.tally.different_in_tabs += next_item != address
        fate = draw()
        if fate < SKIPS:
            self.post(f"{address}skip/", {"reason": "I cannot tell"})
        elif fate < SKIPS + WALKS_AWAY:
            with self.tally.lock:
                self.tally.walked_away.append(_assignment(address))
            time.sleep(LEASE_SECONDS + 1)
        else:
            self.judge(address)

    def judge(self, address: str) -> None:
        answer = {"answer": str(self.chance.randint(-3, 3)), "seconds": "1", "rationale": ""}
        with self.tally.submit.lap():
            self.post(f"{address}judge/", answer)
        if self.chance.random() < SUBMITS_TWICE:
            self.post(f"{address}judge/", answer)  # as if the first response was lost
        if self.chance.random() < UNDOES:
            address = str(self.post(f"/desk/{self.queue.pk}/undo/", {})["item"])
            with self.tally.submit.lap():
                self.post(f"{address}judge/", answer)
        with self.tally.lock:
            self.tally.acknowledged.append(_assignment(address))


def _assignment(address: str) -> str:
    return address.rstrip("/").split("/")[-1]


def audit_of(queue: Queue, tally: Tally) -> Audit:
    """Compare what is stored with what was requested and acknowledged."""
    valid = Preference.objects.valid().filter(queue=queue)
    stored = {str(pk) for pk in valid.values_list("assignment", flat=True)}
    acknowledged = set(tally.acknowledged)
    pairs = valid.order_by().values("item", "annotator").annotate(times=Count("pk")).filter(times__gt=1)
    wrong = Item.objects.filter(queue=queue).exclude(judged=F("overlap"), taken=F("overlap")).count()
    by_item = valid.order_by().values("item").annotate(times=Count("pk")).exclude(times=queue.overlap)
    skipped_items = Assignment.objects.filter(pk__in=tally.walked_away).values("item")
    return Audit(
        judgments=valid.count(),
        wrong_items=max(wrong, by_item.count()),
        twice=pairs.count(),
        lost=len(acknowledged - stored),
        unasked=len(stored - acknowledged),
        own_again=_shown_again(queue),
        different_in_tabs=tally.different_in_tabs,
        came_back=Item.objects.filter(pk__in=skipped_items, judged=F("overlap")).count(),
    )


def _shown_again(queue: Queue) -> int:
    """Assignments created after their annotator had judged the item, except those created by an undo."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT count(*) FROM annotation_assignment later JOIN annotation_assignment judged
               ON judged.item_id = later.item_id AND judged.annotator_id = later.annotator_id
               WHERE later.queue_id = %s AND judged.state = 'judged' AND later.created_at > judged.closed_at""",
            [queue.pk],
        )
        count: int = cursor.fetchone()[0]
    return count
