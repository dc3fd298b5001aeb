"""Gateway: added latency and throughput compared with direct calls to a policy's server, with 64 concurrent sessions.

A mock server answers at an engine's pace: the first token after 200 ms, then one every 25 ms. Each session paces its own
turns, directly and through the gateway in alternating rounds, so that both see the same conditions. Agents, server, gateway, and
PostgreSQL share the machine's cores, so the load of the others counts against the gateway too.

A call is on disk before its agent gets the last byte, so the disk is measured, too: nothing added to the end can be less than one flush.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import httpx
import psutil
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

SESSIONS = 64
ROUNDS = 4
TURNS = 4
TOKENS = 32
FIRST_SECONDS = 0.2
NEXT_SECONDS = 0.025
PAUSE_SECONDS = 1.0
"""Between two turns of an agent, while its tool runs. The load is what an engine serves, not the maximum of this machine."""
KINDS = {"whole": False, "streamed": True}


def measure(size: Any) -> Iterator[Any]:
    from apps.accounts.models import Membership, Role, User, Workspace
    from apps.gateway.models import Call
    from apps.gateway.sessions import open_session
    from apps.policies.models import Endpoint, Policy
    from bench.harness import Figure, percentile, serving

    workspace = Workspace.objects.create(name="bench", slug="bench")
    user = User.objects.create_user(email="researcher@example.org", name="Researcher")
    member = Membership.objects.create(user=user, workspace=workspace, role=Role.RESEARCHER)
    for percent in (50, 95):
        yield Figure(name=f"a write flushed to disk, p{percent}", value=percentile(flushes(), percent), unit="ms")
    with upstream() as direct, serving(1) as server:
        endpoint = Endpoint.objects.create(workspace=workspace, name="server", base_url=direct)
        policy = Policy.objects.create(
            workspace=workspace, name="served", kind=Policy.Kind.ENDPOINT, location="served", endpoint=endpoint
        )
        through = f"{server.url}/gateway/v1"
        for kind, is_streamed in KINDS.items():
            asyncio.run(play(through, keys(open_session, member, policy), is_streamed, turns=1))  # warm up connections
            samples: dict[str, list[tuple[float, float]]] = {direct: [], through: []}
            spans: dict[str, list[float]] = {direct: [], through: []}
            before, worked = Call.objects.count(), processor_seconds(server.pids)
            for _ in range(ROUNDS):
                for url in (direct, through):
                    opened = keys(open_session, member, policy)
                    start = time.perf_counter()
                    samples[url] += asyncio.run(play(url, opened, is_streamed, turns=TURNS))
                    spans[url].append(time.perf_counter() - start)
            counts = {"sessions": SESSIONS, "calls": SESSIONS * ROUNDS * TURNS}
            for part, index in (("to the first token", 0), ("to the end", 1)):
                if part == "to the first token" and not is_streamed:
                    continue
                alone, added = ([sample[index] * 1000 for sample in samples[url]] for url in (direct, through))
                for percent, limit in ((50, 5.0), (95, 15.0)):
                    extra = percentile(added, percent) - percentile(alone, percent)
                    yield Figure(
                        name=f"{kind}: added {part}, p{percent}",
                        value=extra,
                        unit="ms",
                        limit=limit,
                        with_=counts | {"direct": round(percentile(alone, percent), 1)},
                    )
            calls = SESSIONS * ROUNDS * TURNS
            spent = 1000 * (processor_seconds(server.pids) - worked) / calls
            yield Figure(name=f"{kind}: processor time of the gateway", value=spent, unit="ms a call", with_=counts)
            ratio = 100 * sum(spans[direct]) / sum(spans[through])
            yield Figure(
                name=f"{kind}: throughput of the server's",
                value=ratio,
                unit="%",
                limit=95.0,
                better="higher",
                with_=counts,
            )
            lost = SESSIONS * ROUNDS * TURNS - (Call.objects.count() - before)
            yield Figure(name=f"{kind}: calls lost or doubled", value=abs(lost), unit="calls", limit=0.0, with_=counts)


def flushes() -> list[float]:
    """Milliseconds that writes of one page take until they're on the database's disk."""
    samples = []
    with tempfile.TemporaryFile(dir=os.environ["RETRACE_VAR"]) as file:
        for _ in range(200):
            start = time.perf_counter()
            os.pwrite(file.fileno(), b"x" * 8192, 0)
            os.fdatasync(file.fileno())
            samples.append(1000 * (time.perf_counter() - start))
    return samples


def processor_seconds(pids: list[int]) -> float:
    times = [psutil.Process(pid).cpu_times() for pid in pids]
    return sum(process_time.user + process_time.system for process_time in times)


def keys(open_session: Any, member: Any, policy: Any) -> list[str]:
    return [open_session(workspace=member.workspace, policy=policy, by=member.user).key for _ in range(SESSIONS)]


async def play(url: str, opened: list[str], is_streamed: bool, *, turns: int) -> list[tuple[float, float]]:
    """Seconds to the first chunk and to the end of each call; session starts are spread over one turn."""
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)  # uvicorn closes an idle connection after 5 s
    async with aiohttp.ClientSession(f"{url}/", connector=connector, timeout=aiohttp.ClientTimeout(60)) as http:
        spread = PAUSE_SECONDS / len(opened)
        sample_lists = await asyncio.gather(
            *(agent(http, key, is_streamed, turns, number * spread) for number, key in enumerate(opened))
        )
    return [sample for samples in sample_lists for sample in samples]


async def agent(
    http: aiohttp.ClientSession, key: str, is_streamed: bool, turns: int, delay: float
) -> list[tuple[float, float]]:
    await asyncio.sleep(delay)
    messages: list[dict[str, str]] = [{"role": "user", "content": "Where is the lamp?" * 20}]
    samples = []
    for _ in range(turns):
        body = {"model": "served", "messages": messages, "stream": is_streamed}
        start, first = time.perf_counter(), 0.0
        text = b""
        headers = {"Authorization": f"Bearer {key}"}
        async with http.post("chat/completions", json=body, headers=headers) as response:
            async for piece in response.content.iter_any():
                first = first or time.perf_counter() - start
                text += piece
        assert response.status == 200, text
        samples.append((first, time.perf_counter() - start))
        messages += [{"role": "assistant", "content": "x" * TOKENS}, {"role": "user", "content": "And then?"}]
        await asyncio.sleep(PAUSE_SECONDS)
    return samples


class upstream:
    """The mock server, in its own process."""

    def __enter__(self) -> str:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        command = [sys.executable, "-m", "uvicorn", "bench.gateway:stand_in", "--port", str(port), "--no-access-log"]
        self.process = subprocess.Popen(
            [*command, "--log-level", "warning"], env={**os.environ, "PYTHONPATH": os.getcwd()}
        )
        url = f"http://127.0.0.1:{port}/v1"
        for _ in range(200):
            try:
                httpx.get(f"{url}/models")
                return url
            except httpx.TransportError:
                time.sleep(0.1)
        raise RuntimeError("The stand-in doesn't answer.")

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()


async def completions(request: Request) -> Response:
    """Responds like vLLM, including token ids if requested."""
    body = await request.json()
    prompt = list(range(20 * len(body["messages"])))
    usage = {"prompt_tokens": len(prompt), "completion_tokens": TOKENS, "total_tokens": len(prompt) + TOKENS}
    shared = {"id": "c", "created": 1, "model": "served"}
    wants_ids = bool(body.get("return_token_ids"))
    if not body.get("stream"):
        await asyncio.sleep(FIRST_SECONDS + NEXT_SECONDS * TOKENS)
        choice: dict[str, Any] = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "x" * TOKENS},
        }
        if wants_ids:
            choice |= {"token_ids": list(range(TOKENS)), "logprobs": {"content": [{"logprob": -0.5}] * TOKENS}}
            shared["prompt_token_ids"] = prompt  # type: ignore[assignment]  # a reply has more than text
        return JSONResponse({**shared, "object": "chat.completion", "choices": [choice], "usage": usage})

    async def pieces() -> AsyncIterator[bytes]:
        start = time.monotonic()
        for number in range(TOKENS):
            # By the clock: an engine isn't slowed down by the load of others on this machine's cores.
            await asyncio.sleep(start + FIRST_SECONDS + number * NEXT_SECONDS - time.monotonic())
            piece: dict[str, Any] = {"index": 0, "delta": {"content": "x"}, "finish_reason": None}
            if wants_ids:
                piece |= {"token_ids": [number], "logprobs": {"content": [{"logprob": -0.5}]}}
            if number == TOKENS - 1:
                piece["finish_reason"] = "stop"
            chunk: dict[str, Any] = {**shared, "object": "chat.completion.chunk", "choices": [piece]}
            if wants_ids and number == 0:
                chunk["prompt_token_ids"] = prompt
            yield b"data: " + json.dumps(chunk).encode() + b"\n\n"
        if (body.get("stream_options") or {}).get("include_usage"):
            yield b"data: " + json.dumps({**shared, "choices": [], "usage": usage}).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"

    return StreamingResponse(pieces(), media_type="text/event-stream")


async def models(request: Request) -> Response:
    return JSONResponse({"data": [{"id": "served", "owned_by": "vllm"}]})


stand_in = Starlette(routes=[Route("/v1/chat/completions", completions, methods=["POST"]), Route("/v1/models", models)])
