"""The fixtures of the end-to-end tests: a running product, and a browser that reports errors."""

import json
import urllib.request

import pytest
from playwright.sync_api import Page

from tests.browser.pages import Console
from tests.live import LiveStack
from workers.app import app

pytestmark = pytest.mark.browser


def test_the_live_stack_answers_over_http_and_through_the_broker(live_stack: LiveStack) -> None:
    with urllib.request.urlopen(f"{live_stack.url}/healthz") as answer:
        assert (answer.status, json.load(answer)["status"]) == (200, "ready")
    answers = app.control.ping(timeout=2, limit=4)
    assert {name.split("@")[0] for answer in answers for name in answer} == {"default", "remote", "generate", "train"}


def test_a_killed_worker_is_back_for_the_next_test(live_stack: LiveStack) -> None:
    worker = live_stack.programs["worker-train"]
    killed = worker.process
    worker.kill()
    live_stack.restart("worker-train")  # returns once every worker has responded; a single ping may get lost
    assert worker.process is not killed
    assert worker.process is not None
    assert worker.process.poll() is None


def test_a_script_error_is_noticed(page: Page, console: Console) -> None:
    page.goto("/healthz")
    page.evaluate("setTimeout(() => { throw new Error('boom') })")
    page.wait_for_timeout(200)
    assert [line for line in console.unexpected() if "boom" in line]
    console.expect("boom|favicon")


def test_an_inline_style_is_refused_and_noticed(page: Page, console: Console) -> None:
    console.expect("404")
    page.goto("/there-is-no-such-page/")
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">')")
    page.wait_for_timeout(200)
    assert [line for line in console.unexpected() if "CSP violation: style-src" in line]
    console.expect("style-src|Content Security Policy|inline style")
