"""Lists: latency of the lists of trajectories and tasks over HTTP, with each filter, at the size for which the limits are stated."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
from django.conf import settings
from django.db import connection

from apps.accounts.models import Membership, Role, User, Workspace
from apps.policies.models import Policy
from apps.trajectories.models import Task, Trajectory
from bench.harness import Figure, Size, Stopwatch, serving
from bench.replay import session_of

LIMIT_MS = 200
REQUESTS = 15
RUNS_A_TASK = 4

# Rows as an import leaves them, without steps, which lists never read. One policy, one tag, and one source are rare.
_TASKS = """
INSERT INTO trajectories_task
    (id, workspace_id, key, environment, instruction, initial_state, success_check, category, difficulty, held_out)
SELECT gen_random_uuid(), %(home)s, 'task-' || n, 'environment-' || n %% 7,
       'Please handle request ' || n || ' of customer ' || md5(n::text) || repeat(' and keep to the policy', 20), '{}', '{}', '', '', false
FROM generate_series(1, %(tasks)s) AS n
"""
_TRAJECTORIES = """
WITH numbered AS (SELECT id, row_number() OVER () - 1 AS place FROM trajectories_task WHERE workspace_id = %(home)s)
INSERT INTO trajectories_trajectory
    (id, workspace_id, task_id, policy_id, source, external_id, reward, success, termination, step_count, error_count, tags,
     called, tools, closing, info, content_hash)
SELECT uuidv7(), %(home)s, numbered.id,
       CASE WHEN n %% 20000 = 7 THEN %(rare)s::uuid ELSE %(common)s::uuid END,
       CASE WHEN n %% 30000 = 5 THEN 'rollout' ELSE 'chat' END, 'run-' || n, n %% 3, n %% 3 = 0, 'done', 8,
       CASE WHEN n %% 9 = 0 THEN 1 ELSE 0 END, CASE WHEN n %% 25000 = 3 THEN ARRAY['rare'] ELSE ARRAY['all'] END,
       CASE WHEN n %% 25000 = 9 THEN ARRAY['rare'] ELSE ARRAY['bash', 'edit'] END,
       json_build_array(json_build_object('type', 'function', 'function', json_build_object('name', 'bash', 'description', repeat('x', 600)))),
       '[]', '{}', decode(md5(n::text), 'hex')
FROM generate_series(1, %(count)s) AS n JOIN numbered ON numbered.place = n %% %(tasks)s
"""

PAGES = {
    "newest": "/trajectories/",
    "common policy": "/trajectories/?policy={common}",
    "rare policy": "/trajectories/?policy={rare}",
    "no policy": "/trajectories/?policy=none",
    "failures": "/trajectories/?outcome=failure",
    "no outcome": "/trajectories/?outcome=none",
    "errors": "/trajectories/?errors=yes",
    "errors of rare policy": "/trajectories/?errors=yes&policy={rare}",
    "environment": "/trajectories/?environment=environment-3",
    "unknown environment": "/trajectories/?environment=nowhere",
    "common word": "/trajectories/?q=customer",
    "rare word": "/trajectories/?q=task-1234",
    "no such word": "/trajectories/?q=zebra",
    "external id": "/trajectories/?q=run-4711",
    "rare tag": "/trajectories/?tag=rare",
    "common tag": "/trajectories/?tag=all",
    "unknown tag": "/trajectories/?tag=none",
    "rare source": "/trajectories/?source=rollout",
    "long runs (none)": "/trajectories/?min_steps=100",
    "failures with errors in an environment": "/trajectories/?environment=environment-3&outcome=failure&errors=yes",
    "rare tool": "/trajectories/?tool=rare",
    "common tool": "/trajectories/?tool=bash",
    "longest": "/trajectories/?sort=longest",
    "facets": "/trajectories/facets/",
    "facets of a common word": "/trajectories/facets/?q=customer",
    "facets of an environment": "/trajectories/facets/?environment=environment-3",
    "facets of a rare tag": "/trajectories/facets/?tag=rare",
    "tasks": "/tasks/",
    "tasks by key": "/tasks/?sort=key",
    "tasks by common word": "/tasks/?q=customer",
    "tasks by rare word": "/tasks/?q=1234",
    "API": "/api/v1/trajectories",
}


def measure(size: Size) -> Iterator[Figure]:
    """Request each page repeatedly, with 2 trajectories per item; p95."""
    home = Workspace.objects.create(name="Bench", slug="bench-listing")
    user = User.objects.create_user(email="bench-listing@example.org", name="Bench", password=None)
    Membership.objects.create(user=user, workspace=home, role=Role.RESEARCHER)
    names = fill(home, size.trajectories)
    with connection.cursor() as cursor:
        for model in (Task, Trajectory):
            cursor.execute(f"VACUUM ANALYZE {model._meta.db_table}")
    with serving(processes=1) as server:
        cookies = {settings.SESSION_COOKIE_NAME: session_of(user)}
        with httpx.Client(base_url=server.url, cookies=cookies, timeout=60) as client:
            for name, address in {**PAGES, "page 20": nth_page(client, 20)}.items():
                watch = Stopwatch()
                client.get(address.format(**names)).raise_for_status()
                for _ in range(REQUESTS):
                    with watch.lap():
                        client.get(address.format(**names)).raise_for_status()
                info = {"trajectories": size.trajectories}
                yield Figure(name=f"listing: {name}, p95", value=watch.p95(), unit="ms", limit=LIMIT_MS, with_=info)


def fill(home: Workspace, count: int) -> dict[str, str]:
    """`count` trajectories, RUNS_A_TASK per task. Returns the ids used in the addresses."""
    common = Policy.objects.create(workspace=home, name="common", kind=Policy.Kind.SCRIPTED)
    rare = Policy.objects.create(workspace=home, name="rare", kind=Policy.Kind.SCRIPTED)
    params = {"home": home.pk, "common": common.pk, "rare": rare.pk, "count": count, "tasks": count // RUNS_A_TASK}
    with connection.cursor() as cursor:
        cursor.execute(_TASKS, params)
        cursor.execute(_TRAJECTORIES, params)
    return {"common": str(common.pk), "rare": str(rare.pk)}


def nth_page(client: httpx.Client, number: int) -> str:
    """The address of a page far from the first, found by following links."""
    address = "/trajectories/"
    for _ in range(number - 1):
        body = client.get(address, headers={"HX-Request": "true"}).raise_for_status().text
        link = body.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0]
        if not link.startswith("?"):
            break
        address = "/trajectories/" + link.replace("&amp;", "&")
    return address.replace("{", "{{").replace("}", "}}")
