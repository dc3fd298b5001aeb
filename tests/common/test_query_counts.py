"""The number of queries of a page or an endpoint doesn't grow with the data: 1 row of everything, or 30.

URLs come from the URL conf and rows from the models, so new ones are covered. A URL that returns
nothing here fails the test until UNMEASURED says why.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import get_resolver
from django.utils.timezone import now

from apps.accounts.models import Membership
from apps.annotation.desk.actions import record
from apps.annotation.desk.assignments import annotator_of, next_assignment
from apps.annotation.kinds.answers import MarkedStep, Scores
from apps.annotation.models import Queue
from apps.trajectories.models import Trajectory
from tests import factories
from tests.accounts.clients import body_of
from tests.addresses import ASKED, Address, routes
from tests.annotation import builders
from tests.copies import copy_everything, make_one, our_models, unguarded

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(1200)]  # some 600 requests

ROWS = 30
UNMEASURED = {"accounts:settings": "leads to the first of its pages"}
"""URLs with nothing to read, and why."""
MORE = {"trajectories:compare_rows": 1, "removal:rules": 19}
"""URLs that may make this many more queries: a step's results are in the next step, which a run of one step doesn't have; what each retention rule
of a page would delete is counted separately, with a bound.
"""
OF_A_PAGE = {"accept": "text/html"}
OF_A_PART = {"accept": "text/html", "HX-Request": "true"}


class Reading:
    """The result of one request."""

    def __init__(self, client: Client, address: Address, headers: dict[str, str]) -> None:
        with CaptureQueriesContext(connection) as captured:
            answer = client.get(address.path, ASKED.get(address.name.partition(" ")[0]), headers=headers)
            body_of(answer)
        self.status = answer.status_code
        self.wrote = any(query["sql"].startswith(("INSERT", "UPDATE", "DELETE")) for query in captured)
        self.queries = [_kind(query["sql"]) for query in captured.captured_queries]

    def is_like(self, other: Reading) -> bool:
        return (self.status, self.queries) == (other.status, other.queries)


ALIKE_FOR_NO_TWO = {"home", "annotation:queues", "annotation:queue", "annotation:mine"}
"""Pages that differ between annotators and owners."""


Key = tuple[str, str, str]
"""A URL's name, whether it's requested as a page or as a partial, and the reader's role."""


def readings(
    members: list[Membership], addresses: list[Address], only: Container[Key] | None = None
) -> dict[Key, Reading]:
    """Every readable URL, read by the first member who gets a 200."""
    readings: dict[Key, Reading] = {}
    done: set[str] = set()
    written: set[str] = set()
    for member in members:
        client = Client(raise_request_exception=False)
        client.force_login(member.user)
        client.get("/")  # queries made once per process or session
        read: set[str] = set()
        for address in addresses:
            for kind, headers in (("page", OF_A_PAGE), ("part", OF_A_PART)):
                key = address.name, kind, member.get_role_display()
                is_wanted = key in only if only is not None else address.name not in done
                if not is_wanted or (kind == "part" and address.path.startswith("/api/")):
                    continue
                reading = Reading(client, address, headers)
                if reading.wrote:  # the first visit to a desk creates an annotator and an assignment
                    reading = Reading(client, address, headers)
                if reading.status == 200:
                    read.add(address.name)
                if reading.status == 405:
                    written.add(address.name)
                    break
                readings[key] = reading
        done |= written | read - ALIKE_FOR_NO_TWO
    return {key: reading for key, reading in readings.items() if key[0] not in written}


def of_queues(owner: Membership, labeler: Membership, things: dict[str, Any]) -> list[Address]:
    """URLs of pairs and of runs to rate; others have judged one, and another is on the annotator's desk."""
    here = owner.workspace
    rating = builders.queue_of_trajectories(Queue.Kind.RATING, of=here, items=2, overlap=3)
    taken = next_assignment(queue=rating, annotator=builders.rule(of=here))
    assert taken is not None
    record(assignment=taken, answer=Scores({}, 1, (MarkedStep(0, "subgoal"),)))
    pairs = builders.queue(of=here, items=2, overlap=3)
    builders.judge(pairs, builders.rule(of=here), 1)
    factories.dataset_version(of=here, recipe={"queues": [str(pairs.pk)], "until": now().isoformat()})
    lists = []
    for queue, side in ((pairs, "left"), (rating, things["side"])):
        held = next_assignment(queue=queue, annotator=annotator_of(labeler))
        assert held is not None
        item = queue.items.order_by("-judged").first()
        assert item is not None
        own = {**things, "queue_id": queue.pk, "item_id": item.pk, "assignment_id": held.pk, "side": side}
        for name, path in routes(get_resolver()):
            if {"{queue_id}", "{assignment_id}"} & set(re.findall(r"{\w+}", path)):
                lists.append(Address(f"{name} ({queue.kind})", path.format(**own), names_something=True))
    return lists


def test_no_page_asks_more_of_the_database_when_there_is_more(
    owner: Membership, labeler: Membership, things: dict[str, Any], addresses: list[Address]
) -> None:
    addresses = [*addresses, *of_queues(owner, labeler, things)]
    with unguarded():
        for model in our_models():
            make_one(model)
    empty = {model.__name__ for model in our_models() if not model._base_manager.exists()}
    assert empty == {"User_groups", "User_user_permissions"}, "make one of these in tests/addresses.py"
    one = readings([owner, labeler], addresses)
    with unguarded():
        copy_everything(ROWS - 1)
    for trajectory in Trajectory.objects.all():
        trajectory.step_count = trajectory.steps.count()
        trajectory.save()
    few = {model.__name__ for model in our_models() if 0 < model._base_manager.count() < ROWS}
    assert few == {"Workspace", "RuleVersion", "UsageLimits"}, "these were not copied"  # one per workspace
    alike = {key for key, reading in one.items() if key[1] == "part" and reading.is_like(one[key[0], "page", key[2]])}
    many = readings([owner, labeler], addresses, only=one.keys() - alike)
    grown = {key: words for key, reading in many.items() if (words := _growth(one[key], reading, key[0]))}
    assert not grown, "\n\n".join(f"{' '.join(key)}:\n{words}" for key, words in grown.items())
    statuses: dict[str, set[int]] = defaultdict(set)
    for (name, _, _), reading in one.items():
        statuses[name.partition(" ")[0]].add(reading.status)
    unmeasured = {name: codes for name, codes in statuses.items() if 200 not in codes}
    assert unmeasured.keys() == UNMEASURED.keys(), unmeasured


def _growth(one: Reading, many: Reading, name: str) -> str:
    """Queries that were made more often, which show what to prefetch. A new query that was made once isn't growth."""
    before, after = Counter(one.queries), Counter(many.queries)
    more = [kind for kind in after if after[kind] > max(before[kind], 1) + MORE.get(name, 0)]
    return "\n".join(f"  {before[kind]} with one, {after[kind]} with {ROWS}: {kind}" for kind in more)


def _kind(query: str) -> str:
    """A query without its columns and values."""
    return re.sub(r"SELECT .*? FROM", "SELECT … FROM", re.sub(r"\bIN \(.*?\)|'[^']*'|\b\d+\b", "?", query))[:240]
