"""Leases of episodes by 200 concurrent runners: how long each waits for the next one, and that each episode goes to exactly one.

Each runner leases an episode, plays it for twenty seconds, and reports the outcome. Runners, web processes, and PostgreSQL share the machine's cores.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from uuid import uuid4

import aiohttp

RUNNERS = 200
ROUNDS = 3
PLAY_SECONDS = 20.0
"""Typical of an agent with a few tools. With shorter episodes there would be more requests than two cores can answer."""


def measure(size: Any) -> Iterator[Any]:
    from apps.accounts.api_tokens import issue_token
    from apps.accounts.models import Membership, Role, User, Workspace
    from apps.policies.models import Policy
    from apps.training import episodes
    from apps.training.models import Run
    from bench.harness import Figure, percentile, serving
    from contract.episodes import Batch, WantedEpisode
    from contract.trajectory import Task

    workspace = Workspace.objects.create(name="bench", slug="bench")
    user = User.objects.create(email="bench@example.org")
    member = Membership.objects.create(user=user, workspace=workspace, role=Role.RESEARCHER)
    secret = issue_token(membership=member, name="bench").secret
    base = Policy.objects.create(workspace=workspace, name="base", kind=Policy.Kind.MODEL, location="example/base")
    run = Run.objects.create(workspace=workspace, name="bench", algorithm="grpo", base=base, state="running")
    count = RUNNERS * ROUNDS
    columns = tuple(
        WantedEpisode(str(uuid4()), Task(f"t{number // 8}", "Find the lamp.", "shop"), number % 8)
        for number in range(count)
    )
    batch = Batch(str(uuid4()), "step 1", "http://127.0.0.1:9/v1", 600, 12, columns)
    episodes.open_batch(run, batch)
    with serving(2) as server:
        headers = {"Authorization": f"Bearer {secret}"}
        leased, ended = asyncio.run(_play(server.url, headers))
    sizes = {"runners": RUNNERS, "episodes": count, "seconds an episode": PLAY_SECONDS}
    milliseconds = [1000 * seconds for _, seconds in leased]
    for share, limit in ((50, None), (95, 20.0)):
        yield Figure(name=f"lease p{share}", value=percentile(milliseconds, share), unit="ms", limit=limit, with_=sizes)
    yield Figure(
        name="end of an episode p95",
        value=percentile([1000 * seconds for seconds in ended], 95),
        unit="ms",
        with_=sizes,
    )
    times = Counter(name for name, _ in leased)
    doubled = sum(times.values()) - len(times) + count - len(times)
    yield Figure(name="episodes lost or given out twice", value=doubled, unit="episodes", limit=0.0, with_=sizes)


async def _play(url: str, headers: dict[str, str]) -> tuple[list[tuple[str, float]], list[float]]:
    """The leased episodes with the seconds that each lease took, and the seconds of each finish."""
    leased: list[tuple[str, float]] = []
    ended: list[float] = []
    # httpx's pool looks at every connection for each request, which would count as the server's time.
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)  # uvicorn closes an idle connection after 5 s
    async with aiohttp.ClientSession(
        f"{url}/api/v1/", headers=headers, connector=connector, timeout=aiohttp.ClientTimeout(60)
    ) as client:

        async def runner(number: int) -> None:
            await asyncio.sleep(PLAY_SECONDS * number / RUNNERS)  # spread the starts
            while True:
                start = time.perf_counter()
                async with client.post("episodes/lease", json={"runner": f"r{number}"}) as answer:
                    if answer.status == HTTPStatus.NO_CONTENT:
                        return
                    assert answer.status == HTTPStatus.OK, await answer.text()
                    lease = await answer.json()
                leased.append((lease["id"], time.perf_counter() - start))
                await asyncio.sleep(PLAY_SECONDS)
                start = time.perf_counter()
                async with client.post(f"sessions/{lease['session']}/finish", json={"success": True}) as answer:
                    assert answer.status == HTTPStatus.OK, await answer.text()
                ended.append(time.perf_counter() - start)

        await asyncio.gather(*(runner(number) for number in range(RUNNERS)))
    return leased, ended
