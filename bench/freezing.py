"""Freezing: preference rows a second, beside a bare read of the same steps, and the memory it takes.

    python -m bench.freezing [ROWS]

A row is a judged pair of two runs of 8 steps, 1 KB a step: 16 steps. The limit is 2,000 rows a second.
"""

import json
import resource
import sys
from collections.abc import Iterator
from time import perf_counter
from typing import Any
from uuid import UUID

from bench.stacked import fresh_stack

STEPS = 8
STEP_BYTES = 1024
TASKS = 500
ROWS_A_SECOND = 2000


def fill(pairs: int) -> tuple[Any, Any]:
    """A workspace with `pairs` judged pairs; answers an owner and the queue."""
    from django.db import connection

    from apps.accounts.models import Membership, Role, User, Workspace
    from apps.annotation.models import Annotator, Queue

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
            [workspace.pk, STEPS],
        )
        cursor.execute(
            """INSERT INTO trajectories_step (trajectory_id, index, kind, tool, headline, result, is_error, done,
                                              context_chars, result_chars, context, message, info)
               SELECT run, i, 'tool', 'look', 'x', 'y', false, false, %(bytes)s, 0,
                      json_build_array(json_build_object('role', CASE i WHEN 0 THEN 'user' ELSE 'tool' END, 'content',
                                                         left(%(filler)s, %(bytes)s - 250))),
                      json_build_object('role', 'assistant', 'content', run::text, 'tool_calls', json_build_array(
                          json_build_object('id', 'c' || i, 'type', 'function', 'function',
                                            json_build_object('name', 'look', 'arguments', '{"at": ' || i || '}')))),
                      '{}'
               FROM pair, LATERAL (VALUES (a), (b)) v (run), generate_series(0, %(steps)s - 1) i""",
            {"bytes": STEP_BYTES, "filler": filler, "steps": STEPS},
        )
        cursor.execute(
            """INSERT INTO annotation_item (queue_id, position, task_id, a_id, b_id, overlap, taken, judged, disputed)
               SELECT %s, n, task, a, b, 1, 1, 1, false FROM pair""",
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
                                                  both_bad, rationale, a_was_left, guideline_version, seconds)
               SELECT gen_random_uuid(), %s, %s, i.id, (%s::uuid[])[1 + n %% %s], assignment,
                      (ARRAY[3, -2, 1, -1, 2])[1 + n %% 5], false, '', n %% 2 = 0, 1, 20
               FROM pair JOIN annotation_item i ON i.position = pair.n""",
            [workspace.pk, queue.pk, judges, len(judges)],
        )
        cursor.execute("ANALYZE")
    return member, queue


def bare_read() -> float:
    """Seconds to receive context and message of every step, as text, and do nothing with them."""
    from django.db import connection

    began = perf_counter()
    with connection.cursor() as cursor:
        raw: Any = cursor.cursor
        for _ in raw.stream("SELECT trajectory_id, context::text, message::text FROM trajectories_step", size=64):
            pass
    return perf_counter() - began


def frozen(member: Any, queue: Any) -> tuple[float, UUID]:
    """Seconds to freeze everything, and the version."""
    from apps.datasets.freezing import create_dataset, freeze, request_version
    from apps.datasets.recipe import Recipe

    dataset = create_dataset(name="bench", description="", licence="", by=member)
    version = request_version(dataset=dataset, recipe=Recipe(queues=(str(queue.pk),)), by=member)
    began = perf_counter()
    freeze(version.pk)
    return perf_counter() - began, version.pk


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(rows: int = 10_000) -> Iterator[dict[str, Any]]:
    """Freeze `rows` rows in a stack of their own."""
    from apps.datasets.models import Version

    member, queue = fill(rows)
    read = bare_read()
    before = peak_mb()
    seconds, version_id = frozen(member, queue)
    version = Version.objects.get(pk=version_id)
    if version.state != Version.State.FROZEN or sum(version.row_counts.values()) != rows:
        raise SystemExit(f"Expected {rows} frozen rows: {version.state} {version.row_counts} {version.error}")
    yield {"name": "freezing", "value": round(rows / seconds), "unit": "rows/s", "limit": ROWS_A_SECOND, "rows": rows}
    yield {"name": "freezing: bare read of the steps", "value": round(rows / read), "unit": "rows/s", "rows": rows}
    yield {"name": "freezing: share of the bare read", "value": round(read / seconds, 2), "unit": "of 1", "rows": rows}
    size = sum(facts["bytes"] for facts in version.files["jsonl"].values()) / 1e6
    yield {"name": "freezing: JSON Lines written", "value": round(size / seconds, 1), "unit": "MB/s", "rows": rows}
    yield {"name": "freezing: memory added", "value": round(peak_mb() - before), "unit": "MB", "rows": rows}


if __name__ == "__main__":
    with fresh_stack():
        for result in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000):
            print(json.dumps(result), flush=True)
