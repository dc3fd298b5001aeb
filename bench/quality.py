"""Quality: how long a worker takes to evaluate a queue with many judgments, and the latency of the page with the results."""

from __future__ import annotations

import time
from collections.abc import Iterator

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import Membership, Role, User, Workspace
from apps.annotation.models import Annotator, Desk, Queue
from apps.annotation.quality.reports import measure_quality
from bench.harness import Figure, Size, elapsed, percentile
from bench.labeling import make_queue, make_runs

PEOPLE = 40
EACH = 2
ROUNDS = 20


def measure(size: Size) -> Iterator[Figure]:
    workspace = Workspace.objects.create(name="bench", slug="bench")
    make_runs(workspace, size._replace(items=size.items // EACH, steps=1))
    queue = make_queue(workspace, "judged", size.items // EACH, overlap=EACH)
    _judge(queue, workspace)
    circumstances = {"judgments": queue.item_count * EACH, "people": PEOPLE}
    with elapsed() as timer:
        measure_quality(queue.pk)
    yield Figure(name="quality.measure", value=timer.seconds, unit="s", limit=30, with_=circumstances)
    user = User.objects.create_user(email="researcher@example.org", name="Researcher")
    Membership.objects.create(user=user, workspace=workspace, role=Role.RESEARCHER)
    client, spent = Client(), []
    client.force_login(user)
    address = reverse("annotation:quality", args=[queue.pk])
    client.get(address)
    for _ in range(ROUNDS):
        before = time.process_time()
        if client.get(address).status_code != 200:
            raise RuntimeError("The page of quality did not answer.")
        spent.append((time.process_time() - before) * 1000)
    # CPU time, which isn't affected by other load.
    yield Figure(name="quality.page.cpu.p50", value=percentile(spent, 50), unit="ms", limit=200, with_=circumstances)
    with CaptureQueriesContext(connection) as captured:
        client.get(address)
    yield Figure(name="quality.page.queries", value=len(captured), unit="", limit=20, with_=circumstances)


def _judge(queue: Queue, workspace: Workspace) -> None:
    """Judge everybody's share: each item by two neighbors in a circle of people."""
    people = Annotator.objects.bulk_create(
        [Annotator(workspace=workspace, kind=Annotator.Kind.PERSON, name=f"Annotator {n}") for n in range(PEOPLE)]
    )
    ids = [person.pk for person in people]
    values = {"queue": queue.pk, "workspace": workspace.pk, "people": ids, "each": EACH, "count": PEOPLE}
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO annotation_assignment (id, workspace_id, queue_id, item_id, annotator_id, state, a_is_left,
                                                  leased_until, closed_at, draft, skip_reason, flagged, flag_reason)
               SELECT gen_random_uuid(), %(workspace)s, queue_id, id, (%(people)s::uuid[])[1 + (position + n) %% %(count)s], 'judged',
                      position %% 2 = 0, now(), now(), '{}', '', false, ''
               FROM annotation_item, generate_series(0, %(each)s - 1) n WHERE queue_id = %(queue)s""",
            values,
        )
        cursor.execute(
            """INSERT INTO annotation_preference (id, workspace_id, queue_id, item_id, annotator_id, assignment_id, strength,
                                                  both_bad, aspects, rationale, a_was_left, guideline_version, seconds)
               SELECT gen_random_uuid(), workspace_id, queue_id, item_id, annotator_id, id, floor(random() * 7) - 3, false, '{}', '',
                      a_is_left, 1, 10 + random() * 60
               FROM annotation_assignment WHERE queue_id = %(queue)s""",
            values,
        )
        cursor.execute(
            "UPDATE annotation_item SET taken = %(each)s, judged = %(each)s WHERE queue_id = %(queue)s", values
        )
        cursor.execute("ANALYZE")
    share = queue.item_count * EACH // PEOPLE
    Desk.objects.bulk_create([Desk(queue=queue, annotator=person, judged=share) for person in people])
