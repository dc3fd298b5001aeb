"""Labeling: latency of the next item and of a submit over HTTP, with eight concurrent annotators.

Each judges an item per second, many times faster than anybody reads. Three queues share one database: one of 1,000 items; one
of `size.items`; and one of the same size whose first half every annotator has judged while each of its items still needs another
person, so that a search from the start would have to skip all of it. Then they judge without a pause, the maximum
load of this machine: once pairs that nobody has seen, and once pairs that two others have already judged.
"""

from __future__ import annotations

import http.client
import json
import random
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.db import connection, connections
from django.test import Client

from apps.accounts.models import Membership, Role, User, Workspace
from apps.annotation.desk.assignments import annotator_of
from apps.annotation.models import Desk, Preference, Queue
from bench.harness import Figure, Serving, Size, Stopwatch, at_once, percentile, serving, settle

ANNOTATORS = 8
ROUNDS = 30
"""Items judged per annotator and queue."""
PACE_SECONDS = 1.0
"""Time per item."""
SMALL = 1_000
SHARED = 120
"""Items of a queue that everybody judges: two people judge each pair before the six who are timed, mostly concurrently."""
LIMIT_MS = 50.0


APART = 3
"""In the paced runs, every so many judgments the next pair is requested separately, as after an undo or on opening the desk."""


class Watches(NamedTuple):
    next: Stopwatch
    """Separate request; returns the rendered pair."""
    submit: Stopwatch
    """The response includes the next pair, rendered."""


def measure(size: Size) -> Iterator[Figure]:
    workspace = Workspace.objects.create(name="bench", slug="bench")
    members = [member(workspace, n) for n in range(ANNOTATORS)]
    make_runs(workspace, size)
    queues = {
        "1k": make_queue(workspace, "1k", SMALL if size.items >= SMALL else size.items),
        "full": make_queue(workspace, "full", size.items),
        "deep": make_queue(workspace, "deep", size.items, overlap=ANNOTATORS + 1),
    }
    _judge_first_half(queues["deep"], members, size.items // 2)
    settle()
    medians: dict[tuple[str, str], float] = {}
    with serving() as server:
        _label(server.url, members, make_queue(workspace, "warm-up", 200), rounds=10)
        for name, queue in queues.items():
            watches = _label(server.url, members, queue, rounds=ROUNDS, pace=PACE_SECONDS)
            for action, watch in watches._asdict().items():
                medians[name, action] = percentile(watch.samples, 50)
                circumstances = {"annotators": ANNOTATORS, "items": queue.item_count, "requests": len(watch.samples)}
                yield _figure(f"labeling.{action}.{name}.p50", medians[name, action], None, circumstances)
                yield _figure(f"labeling.{action}.{name}.p95", watch.p95(), LIMIT_MS, circumstances)
        yield from _flat_out("flat_out", server, members, queues["full"])
        shared = make_queue(workspace, "shared", SHARED, overlap=ANNOTATORS)
        _label(server.url, members[:2], shared, rounds=SHARED - 2)
        yield from _flat_out("shared", server, members[2:], shared)
    for action in ("next", "submit"):
        for name in ("full", "deep"):
            ratio = medians[name, action] / medians["1k", action]
            # Two runs of the same queue differ by up to 10%.
            yield Figure(name=f"labeling.{action}.{name}_to_1k", value=ratio, unit="× p50", limit=1.1)


def _flat_out(name: str, server: Serving, members: list[Membership], queue: Queue) -> Iterator[Figure]:
    """Without pauses, the cores are the only limit, and everyone waits for everyone."""
    start, cpu_before = time.perf_counter(), server.cpu_seconds()
    watches = _label(server.url, members, queue, rounds=ROUNDS)
    circumstances = {"annotators": len(members), "items": queue.item_count, "requests": len(watches.submit.samples)}
    per_second = len(watches.submit.samples) / (time.perf_counter() - start)
    yield Figure(
        name=f"labeling.{name}",
        value=per_second,
        unit="judgments/s",
        limit=None,
        better="higher",
        with_=circumstances,
    )
    cpu = (server.cpu_seconds() - cpu_before) / len(watches.submit.samples)
    # CPU time of the web processes: unaffected by other load.
    yield _figure(f"labeling.{name}.cpu_a_judgment", cpu * 1000, None, circumstances)
    yield _figure(f"labeling.{name}.submit.p95", watches.submit.p95(), LIMIT_MS, circumstances)


def _figure(name: str, value: float, limit: float | None, circumstances: dict[str, int]) -> Figure:
    return Figure(name=name, value=value, unit="ms", limit=limit, with_=circumstances)


class Annotator:
    """One person's browser: a persistent connection, a session, and the requests of static/js/desk/desk.js."""

    def __init__(self, url: str, member: Membership, queue: Queue) -> None:
        self.connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        self.queue = queue
        client = Client()
        client.force_login(member.user)
        session = client.cookies[settings.SESSION_COOKIE_NAME].value
        token = "b" * 32
        self.headers = {
            "Cookie": f"{settings.SESSION_COOKIE_NAME}={session}; csrftoken={token}",
            "X-CSRFToken": token,
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }

    def post(self, path: str, values: dict[str, Any]) -> dict[str, object]:
        answer: dict[str, object] = json.loads(self._ask("POST", path, urlencode(values, doseq=True)))
        return answer

    def _ask(self, method: str, path: str, body: str | None) -> bytes:
        self.connection.request(method, path, body, self.headers)
        response = self.connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise RuntimeError(f"{method} {path} answered {response.status}: {content[:300]!r}")
        return content

    def label(self, rounds: int, watches: Watches, pace: float) -> None:
        """Work like the desk: one pair is preloaded while another is judged, `pace` seconds after the last; the next arrives with the response."""
        shown = self.next([])
        ahead = self.next([shown])
        due = time.monotonic() + random.random() * pace
        for n in range(rounds):
            time.sleep(max(0.0, due - time.monotonic()))
            due += pace
            answer = {"answer": str(n % 7 - 3), "seconds": "1", "rationale": "because it asks first"}
            if pace and n % APART == 0:
                self.post(f"{shown}judge/", answer)
                with watches.next.lap():
                    following = self.next([ahead])
            else:
                with watches.submit.lap():
                    reply = self.post(f"{shown}judge/", answer | {"next": "1", "besides": [_id_of(ahead)]})
                following = self._address(reply["next"])
            shown, ahead = ahead, following

    def next(self, besides: list[str]) -> str:
        """The address of the next pair."""
        return self._address(self.post(f"/desk/{self.queue.pk}/next/", {"besides": [_id_of(pair) for pair in besides]}))

    def _address(self, reply: Any) -> str:
        pair = reply["item"]
        if not isinstance(pair, str):
            raise RuntimeError(f"Queue {self.queue} gave nothing.")
        return pair


def _id_of(pair: str) -> str:
    return pair.split("/")[-2]


def _label(url: str, members: list[Membership], queue: Queue, *, rounds: int, pace: float = 0.0) -> Watches:
    watches = Watches(Stopwatch(), Stopwatch())
    people = [Annotator(url, member, queue) for member in members]
    before = Preference.objects.filter(queue=queue).count()
    rounds = min(rounds, queue.item_count * queue.overlap // len(people) - 2)  # one more pair is preloaded
    at_once(len(people), lambda n: people[n].label(rounds, watches, pace))
    connections.close_all()
    stored = Preference.objects.filter(queue=queue).count() - before
    if stored != rounds * len(people):
        raise RuntimeError(f"{rounds * len(people)} answers were acknowledged and {stored} are stored.")
    return watches


def member(workspace: Workspace, n: int) -> Membership:
    user = User.objects.create_user(email=f"annotator{n}@example.org", name=f"Annotator {n}")
    return Membership.objects.create(user=user, workspace=workspace, role=Role.ANNOTATOR)


def make_runs(workspace: Workspace, size: Size) -> None:
    """Two runs of each of `size.items` tasks, which diverge after their second step; their ids are stored in a table of pairs."""
    filler = "The shop answered with its list of offers, prices and times of delivery. " * 20
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE bench_pair AS SELECT n, gen_random_uuid() task, gen_random_uuid() a, gen_random_uuid() b"
            " FROM generate_series(0, %s - 1) n",
            [size.items],
        )
        cursor.execute(
            """INSERT INTO trajectories_task (id, workspace_id, key, environment, instruction, initial_state, success_check,
                                              category, difficulty, held_out)
               SELECT task, %s, 'task-' || n, 'bench', 'Buy the cheapest lamp.', '{}', '{}', '', '', false FROM bench_pair""",
            [workspace.pk],
        )
        cursor.execute(
            """INSERT INTO trajectories_trajectory (id, workspace_id, task_id, source, external_id, termination, step_count,
                                                    error_count, tags, tools, closing, info, content_hash)
               SELECT run, %s, task, 'bench', '', 'done', %s, 0, '{}', '[]', '[]', '{}', sha256(run::text::bytea)
               FROM bench_pair, LATERAL (VALUES (a), (b)) v (run)""",
            [workspace.pk, size.steps],
        )
        cursor.execute(
            """INSERT INTO trajectories_step (trajectory_id, index, kind, tool, headline, result, is_error, done,
                                              context_chars, result_chars, action, context, message, info)
               SELECT run, i, 'tool', 'look', 'shelf ' || i, 'offers', false, false, %(bytes)s, %(bytes)s,
                      decode(md5(i || CASE WHEN i < 2 THEN 'all' ELSE left(run::text, 4) END), 'hex'),
                      format('[{"role":"%%s","content":"%%s"}]', CASE i WHEN 0 THEN 'user' ELSE 'tool' END,
                             left(%(filler)s, %(bytes)s - 220))::json,
                      format('{"role":"assistant","content":null,"tool_calls":[{"id":"c%%s","type":"function","function":'
                             '{"name":"look","arguments":{"shelf":%%s,"for":"%%s"}}}]}', i, i,
                             CASE WHEN i < 2 THEN 'all' ELSE left(run::text, 4) END)::json,
                      '{}'
               FROM bench_pair, LATERAL (VALUES (a), (b)) v (run), generate_series(0, %(steps)s - 1) i""",
            {"bytes": size.step_bytes, "filler": filler, "steps": size.steps},
        )


def make_queue(workspace: Workspace, name: str, items: int, *, overlap: int = 1) -> Queue:
    queue = Queue.objects.create(workspace=workspace, name=name, item_count=items, overlap=overlap)
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO annotation_item (queue_id, kind, position, task_id, a_id, b_id, overlap, taken, judged, disputed)
               SELECT %s, 'pairwise', n, task, a, b, %s, 0, 0, false FROM bench_pair WHERE n < %s""",
            [queue.pk, overlap, items],
        )
        if cursor.rowcount < items:
            raise RuntimeError(f"{items} items were wanted and there are {cursor.rowcount} pairs.")
    return queue


def _judge_first_half(queue: Queue, members: list[Membership], items: int) -> None:
    """Judge the first `items` items by every member, leaving one free place on each."""
    for member in members:
        annotator = annotator_of(member)
        Desk.objects.create(queue=queue, annotator=annotator, position=items, judged=items)
        with connection.cursor() as cursor:
            cursor.execute(
                """INSERT INTO annotation_assignment (id, workspace_id, queue_id, item_id, annotator_id, state, a_is_left,
                                                      leased_until, closed_at, draft, skip_reason, flagged, flag_reason)
                   SELECT gen_random_uuid(), %s, queue_id, id, %s, 'judged', true, now(), now(), '{}', '', false, ''
                   FROM annotation_item WHERE queue_id = %s AND position < %s""",
                [queue.workspace_id, annotator.pk, queue.pk, items],
            )
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE annotation_item SET taken = %s, judged = %s WHERE queue_id = %s AND position < %s",
            [len(members), len(members), queue.pk, items],
        )
