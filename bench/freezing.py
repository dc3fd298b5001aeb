"""Freezing: preference rows per second, compared with a bare read of the same steps, and memory.

A row is a judged pair: two runs of 8 steps, 1 KB per step. The limit is 2,000 rows per second. For comparison, the same steps are streamed
without and with decoding, which is the minimum needed to make rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import orjson
from django.db import connection

from apps.accounts.models import Membership, Role, User, Workspace
from apps.annotation.models import Annotator, Queue
from apps.datasets.freezing import create_dataset, freeze, request_version
from apps.datasets.models import Version
from apps.datasets.recipe import Recipe
from bench.harness import Figure, Size, elapsed, watch_memory

TASKS = 500
MAX_PAIRS = 50_000
ROWS_A_SECOND = 2000
READ = "SELECT trajectory_id, context::text, message::text FROM trajectories_step"


def fill(pairs: int, size: Size) -> tuple[Membership, Queue]:
    """Create a workspace with `pairs` judged pairs; returns an owner and the queue."""
    workspace = Workspace.objects.create(name="bench", slug="bench")
    user = User.objects.create_user(email="bench@example.org", name="Bench")
    member = Membership.objects.create(user=user, workspace=workspace, role=Role.OWNER)
    queue = Queue.objects.create(workspace=workspace, name="bench", item_count=pairs)
    annotators = [Annotator.objects.create(workspace=workspace, kind="person", name=f"annotator {n}") for n in range(8)]
    filler = "The shop answered with its list of offers, prices and times of delivery. " * 20
    with connection.cursor() as cursor:
        cursor.execute(
            """INSERT INTO trajectories_task (id, workspace_id, key, environment, instruction, initial_state, success_check,
                                              category, difficulty, held_out)
               SELECT gen_random_uuid(), %s, 'task-' || n, 'bench', 'Do it.', '{}', '{}', '', '', false
               FROM generate_series(1, %s) n""",
            [workspace.pk, min(TASKS, pairs)],
        )
        cursor.execute(
            """CREATE TEMP TABLE pair AS
               SELECT n, t.id AS task, gen_random_uuid() AS a, gen_random_uuid() AS b, gen_random_uuid() AS assignment
               FROM generate_series(0, %s - 1) n
               JOIN (SELECT id, row_number() OVER () - 1 AS place FROM trajectories_task) t ON t.place = n %% %s""",
            [pairs, min(TASKS, pairs)],
        )
        cursor.execute(
            """INSERT INTO trajectories_trajectory (id, workspace_id, task_id, source, external_id, termination, step_count,
                                                    error_count, tags, tools, closing, info, content_hash)
               SELECT run, %s, task, 'bench', '', 'done', %s, 0, '{}', '[]', '[]', '{}', sha256(run::text::bytea)
               FROM pair, LATERAL (VALUES (a), (b)) v (run)""",
            [workspace.pk, size.steps],
        )
        cursor.execute(
            """INSERT INTO trajectories_step (trajectory_id, index, kind, tool, headline, result, is_error, done,
                                              context_chars, result_chars, action, context, message, info)
               SELECT run, i, 'tool', 'look', 'x', 'y', false, false, %(bytes)s, 0, decode(md5(run::text || i), 'hex'),
                      format('[{"role":"%%s","content":"%%s"}]', CASE i WHEN 0 THEN 'user' ELSE 'tool' END,
                             left(%(filler)s, %(bytes)s - 220))::json,
                      format('{"role":"assistant","content":"%%s","tool_calls":[{"id":"c%%s","type":"function","function":'
                             '{"name":"look","arguments":"{\\"at\\": %%s, \\"in\\": \\"shop\\"}"}}]}', run, i, i)::json,
                      '{}'
               FROM pair, LATERAL (VALUES (a), (b)) v (run), generate_series(0, %(steps)s - 1) i""",
            {"bytes": size.step_bytes, "filler": filler, "steps": size.steps},
        )
        cursor.execute(
            """INSERT INTO annotation_item (queue_id, kind, position, task_id, a_id, b_id, overlap, taken, judged, disputed)
               SELECT %s, 'pairwise', n, task, a, b, 1, 1, 1, false FROM pair""",
            [queue.pk],
        )
        judges = [annotator.pk for annotator in annotators]
        cursor.execute(
            """INSERT INTO annotation_assignment (id, workspace_id, queue_id, item_id, annotator_id, state, a_is_left,
                                                  leased_until, draft, skip_reason, flagged, flag_reason)
               SELECT assignment, %s, %s, i.id, (%s::uuid[])[1 + n %% %s], 'judged', n %% 2 = 0, now(), '{}', '', false, ''
               FROM pair JOIN annotation_item i ON i.position = pair.n""",
            [workspace.pk, queue.pk, judges, len(judges)],
        )
        cursor.execute(
            """INSERT INTO annotation_preference (id, workspace_id, queue_id, item_id, annotator_id, assignment_id, strength,
                                                  both_bad, aspects, rationale, a_was_left, guideline_version, seconds)
               SELECT gen_random_uuid(), %s, %s, i.id, (%s::uuid[])[1 + n %% %s], assignment,
                      (ARRAY[3, -2, 1, -1, 2])[1 + n %% 5], false, '{}', '', n %% 2 = 0, 1, 20
               FROM pair JOIN annotation_item i ON i.position = pair.n""",
            [workspace.pk, queue.pk, judges, len(judges)],
        )
        cursor.execute("ANALYZE")
    return member, queue


def read(*, decode: bool) -> None:
    """Fetch context and message of every step as text, and optionally decode them."""
    with connection.cursor() as cursor:
        raw: Any = cursor.cursor
        for _, context, message in raw.stream(READ, size=64):
            if decode:
                orjson.loads(context)
                orjson.loads(message)


def frozen(member: Membership, queue: Queue) -> Version:
    """A version of all judgments."""
    dataset = create_dataset(name="bench", description="", license="", by=member)
    version = request_version(dataset=dataset, recipe=Recipe(queues=(str(queue.pk),)), by=member)
    freeze(version.pk)
    version.refresh_from_db()
    if version.state != Version.State.FROZEN:
        raise RuntimeError(f"The version is {version.state}: {version.error}")
    return version


def measure(size: Size) -> Iterator[Figure]:
    """Freeze up to 50,000 pairs. Memory is one row group per split plus the libraries, regardless of the number of pairs."""
    pairs = min(size.items, MAX_PAIRS)
    member, queue = fill(pairs, size)
    sizes = {"rows": pairs, "steps_a_row": 2 * size.steps, "bytes_a_step": size.step_bytes}
    with elapsed() as bare:
        read(decode=False)
    with elapsed() as decoded:
        read(decode=True)
    processor = time.process_time()
    with elapsed() as timer, watch_memory() as memory:
        version = frozen(member, queue)
    processor = time.process_time() - processor
    if sum(version.row_counts.values()) != pairs:
        raise RuntimeError(f"Expected {pairs} rows; got {version.row_counts} and {version.card['dropped']}")
    written = sum(entry["bytes"] for files in version.files.values() for entry in files.values()) / 1e6
    yield Figure(
        name="freezing", value=pairs / timer.seconds, unit="rows/s", limit=ROWS_A_SECOND, better="higher", with_=sizes
    )
    # CPU time of this process, without Postgres: hardly affected by other load on the machine.
    yield Figure(name="freezing: processor time", value=1e6 * processor / pairs, unit="µs/row", with_=sizes)
    yield Figure(name="freezing: bare read of the steps", value=pairs / bare.seconds, unit="rows/s", with_=sizes)
    yield Figure(name="freezing: read and decode the steps", value=pairs / decoded.seconds, unit="rows/s", with_=sizes)
    yield Figure(name="freezing: written, both formats", value=written / timer.seconds, unit="MB/s", with_=sizes)
    yield Figure(name="freezing: memory", value=memory.growth, unit="MB", limit=300, with_=sizes)
