"""Real Chromium pages for tests. Any error in a page's console fails the test."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Response, expect, sync_playwright

from tests.browser import chromium
from tests.live import LiveStack

ARTIFACTS = Path(__file__).resolve().parents[2] / "var" / "test-artifacts"
TRACED = "TRACE" in os.environ
"""Whether to record traces for `playwright show-trace`, which makes tests 25 % slower."""
FLAGS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-first-run",
    "--in-process-gpu",  # every module starts a Chromium, whose GPU process would draw in software anyway
    "--disable-dev-shm-usage",  # /dev/shm is small in containers
    *(["--no-sandbox"] if os.geteuid() == 0 else []),  # Chromium's sandbox refuses root
]
REPORT_VIOLATIONS = """
    document.addEventListener("securitypolicyviolation", (event) => {
        console.error(`CSP violation: ${event.violatedDirective} blocked ${event.blockedURI} at ${event.sourceFile}`);
    });
"""

LEFT = r"htmx-2\.min\.js: htmx:(afterRequest|sendAbort)\b"
"""htmx was waiting for a response when its page was left. Real failures also cause another message (sendError, responseError)."""


class Console:
    """Console errors in the pages of one test."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._expected: list[str] = [LEFT]

    def expect(self, pattern: str) -> None:
        """Accept problems that match, for tests that provoke one, such as a missing page."""
        self._expected.append(pattern)

    def unexpected(self) -> list[str]:
        """Problems that weren't expected."""
        return [line for line in self.problems if not any(re.search(pattern, line) for pattern in self._expected)]

    def watch(self, page: Page) -> None:
        """Start collecting problems from `page`."""
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.problems.append(f"{page.url}: {error}"))
        page.on("response", self._answered)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.problems.append(f"{message.location.get('url')}: {message.text}")

    def _answered(self, response: Response) -> None:
        if response.status >= 500:
            self.problems.append(f"{response.request.method} {response.url} answered {response.status}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium per module: its event loop must be closed before another module's asyncio tests."""
    path = chromium.find()
    if path is None:
        pytest.fail("No Chromium on this machine. `make test` installs one; or set CHROMIUM=/path/to/chromium.")
    # Playwright keeps an event loop in this thread, in which Django would refuse to reach the database.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    expect.set_options(timeout=15_000)  # for busy machines; waiting ends as soon as the condition holds
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def console() -> Console:
    """Console errors in this test; `console.expect(pattern)` accepts one."""
    return Console()


@pytest.fixture
def open_as(
    browser: Browser, live_stack: LiveStack, console: Console, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Page]]:
    """Opens a page for a signed-in user (or for a visitor: None); each call opens a separate browser window.

    `open_as(user, viewport={"width": 390, "height": 844}, color_scheme="dark")`; paths are relative: `page.goto("/")`.
    """
    contexts: list[BrowserContext] = []

    def open_page(user: Any, **options: Any) -> Page:
        options = {"viewport": {"width": 1440, "height": 900}, "locale": "en-GB", "timezone_id": "UTC", **options}
        context = browser.new_context(base_url=live_stack.url, **options)
        contexts.append(context)
        context.set_default_timeout(15_000)
        if TRACED:
            context.tracing.start(screenshots=True, snapshots=True)
        context.add_init_script(REPORT_VIOLATIONS)
        if user is not None:
            context.add_cookies([_session_cookie(user, live_stack.url)])
        page = context.new_page()
        console.watch(page)
        return page

    yield open_page
    failed = getattr(request.node, "failed_in", None) is not None or bool(console.unexpected())
    for number, context in enumerate(contexts, start=1):
        if failed:
            _keep(context, ARTIFACTS / re.sub(r"[^\w.-]+", "-", request.node.nodeid), number)
        context.close()
    if problems := console.unexpected():
        pytest.fail("The browser complained:\n" + "\n".join(problems), pytrace=False)


@pytest.fixture
def page(open_as: Callable[..., Page]) -> Page:
    """A visitor's page."""
    return open_as(None)


def _session_cookie(user: Any, url: str) -> Any:
    client = Client()
    client.force_login(user)
    return {
        "name": settings.SESSION_COOKIE_NAME,
        "value": client.cookies[settings.SESSION_COOKIE_NAME].value,
        "url": url,
    }


def _keep(context: BrowserContext, folder: Path, number: int) -> None:
    """Save a screenshot and the HTML of each page of a failed test and, with TRACE=1, a trace."""
    if number == 1:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    for index, page in enumerate(context.pages, start=1):
        name = folder / f"window-{number}-page-{index}"
        page.screenshot(path=name.with_suffix(".png"))
        name.with_suffix(".html").write_text(page.content())
    if TRACED:
        context.tracing.stop(path=folder / f"window-{number}.zip")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Make the test's result available to the fixtures above, which are torn down after it."""
    report = yield
    if report.failed:
        item.failed_in = report.when  # type: ignore[attr-defined]
    return report
