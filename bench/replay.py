"""Replay: opening a run of 1,000 steps and 50 MB in Chromium, stepping through it, and the server time for each part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from statistics import median
from typing import Any

import httpx
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from apps.accounts.models import Membership, Role, User, Workspace
from apps.trajectories.imports.bulk_copy import Origin, copy_in
from apps.trajectories.imports.preparation import prepare
from apps.trajectories.models import Trajectory
from bench.harness import Figure, Serving, Size, Stopwatch, percentile, serving
from contract import trajectory as records
from tests.browser import chromium

STEPS = 1_000
OBSERVATION = 50_000
OPENINGS = 7
PRESSES = 200
REQUESTS = 40

FRAME_MS = 1000 / 60

# Runs before the page's own scripts. A step counts as shown in the first frame in which the current step is a different one with its body.
# `work` is the page's own time for it: handling the key and rendering the frame, without the wait for the display in between.
WATCH = """
    window.opened = new Promise((resolve) => {
        new MutationObserver((_, observer) => {
            if (!document.querySelector("[data-replay][data-ready]")) return;
            observer.disconnect();
            requestAnimationFrame(() => afterPaint(() => resolve(performance.now())));
        }).observe(document, { subtree: true, childList: true, attributes: true });
    });
    window.shown = [];
    function afterPaint(done) {
        const channel = new MessageChannel();
        channel.port1.onmessage = done;
        channel.port2.postMessage(null);
    }
    let pressed = 0;
    window.addEventListener("keydown", () => {
        pressed = performance.now();
        const start = pressed;
        const before = document.querySelector(".step.current")?.id;
        let frames = 0;
        const look = () => requestAnimationFrame(() => {
            frames += 1;
            const current = document.querySelector(".step.current");
            if (current?.id === before || current?.classList.contains("waiting")) return look();
            const frame = performance.now();
            afterPaint(() => {
                const painted = performance.now();
                window.shown.push({ ms: painted - start, work: window.handled + painted - frame, frames });
            });
        });
        look();
    }, { capture: true });
    // The page listens on the document; the window hears of it last.
    window.addEventListener("keydown", () => (window.handled = performance.now() - pressed));
"""


def measure(size: Size) -> Iterator[Figure]:
    """Always uses the same size, independent of the other benchmarks' size."""
    home = Workspace.objects.create(name="Bench", slug="bench-replay")
    user = User.objects.create_user(email="bench@example.org", name="Bench", password=None)
    Membership.objects.create(user=user, workspace=home, role=Role.RESEARCHER)
    trajectory = long_run(home)
    with serving(processes=1) as server:
        cookie = session_of(user)
        yield from in_chromium(server, trajectory, cookie)
        yield from on_the_server(server, trajectory, cookie)


def long_run(home: Workspace) -> Trajectory:
    """STEPS steps, each with a result of OBSERVATION characters."""
    steps = []
    for i in range(STEPS):
        text = "".join(f"src/module_{j % 17}.py:{j}:    def method_{i}_{j}(self): return {j}\n" for j in range(1_200))
        context = [{"role": "tool", "tool_call_id": f"c{i - 1}", "content": text[:OBSERVATION]}] if i else []
        call = {"name": "bash", "arguments": json.dumps({"command": f"grep -rn method_{i} src"})}
        message = {
            "role": "assistant",
            "content": f"Step {i}.",
            "tool_calls": [{"id": f"c{i}", "type": "function", "function": call}],
        }
        steps.append(records.Step(context=context, message=message, seconds=1.0 + i % 7))
    record = records.Trajectory(task=records.Task(key="long", instruction="A long run."), steps=steps)
    prepared = prepare(record, b"{}")
    copy_in([prepared], Origin(workspace_id=home.pk, source="bench"))
    return Trajectory.objects.get(pk=prepared.id)


def session_of(user: User) -> str:
    client = Client()
    client.force_login(user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


def in_chromium(server: Serving, trajectory: Trajectory, cookie: str) -> Iterator[Figure]:
    path = chromium.find()
    if path is None:
        raise RuntimeError("No Chromium on this machine: `python -m tests.browser.chromium` installs one.")
    info = {"steps": STEPS, "observations_mb": STEPS * OBSERVATION / 1e6}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        windows = [new_window(browser, server, cookie) for _ in range(OPENINGS)]
        for visit, first in (("open", 1), ("open again", 31)):
            opened = [open_run(page, server, trajectory, number=first + i * 135) for i, page in enumerate(windows)]
            for name in ("painted", "ready", "main thread busy"):
                values = [times[name] for times in opened]
                yield Figure(
                    name=f"replay: {visit}, {name}",
                    value=median(values),
                    unit="ms",
                    limit=1_000,
                    with_=info | {"worst": round(max(values))},
                )
        page = windows[0]
        open_run(page, server, trajectory, number=1)
        for pace, pause in (("reading", 120), ("held key", 33)):
            yield from stepping(pace, press(page, pause), info)
        yield Figure(name="replay: steps in the page", value=page.locator(".step").count(), unit="", limit=60)
        browser.close()


def stepping(pace: str, shown: list[dict[str, float]], info: dict[str, Any]) -> Iterator[Figure]:
    """`work` must fit into a frame; the time from the key to the screen depends on when within a frame the key is pressed."""
    for part, measure, limit in (("work", "work for a frame", FRAME_MS), ("ms", "key to frame", 50)):
        values = [timing[part] for timing in shown]
        yield Figure(name=f"replay: step ({pace}), {measure}, p50", value=median(values), unit="ms", with_=info)
        p95 = percentile(values, 95)
        yield Figure(name=f"replay: step ({pace}), {measure}, p95", value=p95, unit="ms", limit=limit, with_=info)
    late = sum(timing["frames"] > 1 for timing in shown) / len(shown)
    yield Figure(name=f"replay: step ({pace}), later than the next frame", value=100 * late, unit="%", with_=info)


def new_window(browser: Browser, server: Serving, cookie: str) -> Page:
    """A page with an empty cache."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": server.url}])
    page = context.new_page()
    page.add_init_script(WATCH)
    return page


def open_run(page: Page, server: Serving, trajectory: Trajectory, *, number: int) -> dict[str, Any]:
    """When the run's steps were painted and its scripts were ready, in ms from the click, and the page's CPU time for it."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = worked(session)
    page.goto(f"{server.url}/trajectories/{trajectory.pk}/steps/{number}/")
    ready = page.evaluate("window.opened")
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    return {"painted": painted, "ready": ready, "main thread busy": worked(session) - before}


def worked(session: CDPSession) -> float:
    """CPU time of the page's main thread so far, in ms."""
    metrics = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    return float(1000 * metrics["TaskDuration"])


def press(page: Page, pause: int) -> list[dict[str, float]]:
    """Press j PRESSES times; for each press, when the next step was on the screen (ms) and the page's time for it."""
    page.wait_for_load_state("networkidle")
    page.evaluate("window.shown = []")
    for _ in range(PRESSES):
        page.keyboard.press("j")
        page.wait_for_timeout(pause)
    page.wait_for_timeout(500)
    shown: list[dict[str, float]] = page.evaluate("window.shown")
    return shown


def on_the_server(server: Serving, trajectory: Trajectory, cookie: str) -> Iterator[Figure]:
    run = f"/trajectories/{trajectory.pk}"
    requests = {
        "page": lambda i: f"{run}/steps/{1 + i * 20}/",
        "outline": lambda i: f"{run}/outline/",
        "8 steps": lambda i: f"{run}/steps/?from={i * 8}&to={i * 8 + 7}",
        "more of a step": lambda i: f"{run}/parts/{i}/?at=after.0&as=terminal&from=4000",
        "search": lambda i: f"{run}/search/?q=method_{i * 9}_77",
    }
    with httpx.Client(base_url=server.url, cookies={settings.SESSION_COOKIE_NAME: cookie}, timeout=60) as client:
        for name, address in requests.items():
            watch = Stopwatch()
            client.get(address(0)).raise_for_status()
            for i in range(REQUESTS if name != "search" else 8):
                with watch.lap():
                    client.get(address(i), headers={"HX-Request": "true"}).raise_for_status()
            yield Figure(name=f"replay: server, {name}, p95", value=watch.p95(), unit="ms")
