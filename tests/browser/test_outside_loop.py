"""The loop around an external agent: watch it live, compare two policies behind one name, judge by keyboard, let the stopping rule decide, promote."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from apps.accounts.models import Role
from apps.policies.registration import register_served
from tests import factories
from tests.browser.pages import Console
from tests.gateway.upstream import Reply, Upstream, calls, says
from tests.live import LiveStack

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]
LOOK, DONE = calls("list_orders", "{}"), says("The order is refunded.")
TASKS, ATTEMPTS = 14, 6
"""The rule requires ten unanimous pairs. A task lacks one of the arms with probability 1/32."""
PATIENCE = 180_000
"""Timeout in milliseconds for periodic tasks, which run every ten seconds."""
TRAFFIC = f"""
from concurrent.futures import ThreadPoolExecutor

import retrace
from openai import OpenAI
from openai_agent import TASK, play


def attempt(number):
    task = {{**TASK, "key": f"refund-{{number}}", "instruction": f"{{TASK['instruction']}} Customer {{number}} asks."}}
    with client.session(split="refunds", task=task, agent="openai_agent") as session:
        refunded = play(OpenAI(base_url=session.base_url, api_key=session.api_key), task["instruction"])
        session.finish(outcome="success" if refunded == ["17"] else "failure")


with retrace.Client() as client, ThreadPoolExecutor(4) as pool:
    list(pool.map(attempt, [number for number in range({TASKS}) for _ in range({ATTEMPTS})]))
"""
"""The example agent serving many customers, whose requests all name the same split."""


class Paced:
    """A policy that waits for a signal before each turn, so that the test can watch it."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = [self._after_a_word(reply) for reply in replies]
        self._words = threading.Semaphore(0)

    def go_on(self) -> None:
        self._words.release()

    def _after_a_word(self, reply: Reply) -> Reply:
        def answer(body: dict[str, Any]) -> dict[str, Any]:
            assert self._words.acquire(timeout=PATIENCE / 1000)
            return reply(body)

        return answer


def refunds(order: str) -> Reply:
    """A policy that looks up the orders, refunds this one, and says so, in any number of concurrent chats."""

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        return (LOOK, calls("refund", f'{{"order": "{order}"}}'), DONE)[turn](body)

    return answer


@contextmanager
def agent(stack: LiveStack, token: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A user's program with the example agent beside it."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'client' / 'src'}:{ROOT / 'examples'}",
        "RETRACE_URL": stack.url,
        "RETRACE_TOKEN": token,
    }
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, *arguments], env=environment, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def end_of(process: subprocess.Popen[str]) -> str:
    """Its output, once it has exited successfully."""
    printed, problems = process.communicate(timeout=PATIENCE / 1000)
    assert (process.returncode, problems) == (0, "")
    return printed


def test_an_agent_elsewhere_goes_around_the_loop(
    open_as: Callable[..., Page], live_stack: LiveStack, console: Console
) -> None:
    console.expect(
        r"/next/: .* 409 "
    )  # the rule ends the experiment and closes its queue while the annotator waits for more
    workspace = factories.workspace()
    member = factories.member(Role.RESEARCHER, of=workspace)
    judge = factories.member(Role.ANNOTATOR, of=workspace).user
    token = factories.token(member)
    paced = Paced(LOOK, calls("refund", '{"order": "16"}'), DONE)
    with Upstream(*paced.replies) as old_server, Upstream(refunds("17")) as new_server:
        for name, server in (("clerk", old_server), ("better-clerk", new_server)):
            register_served(workspace=workspace, name=name, base_url=server.url, model="served", by=member.user)
        page = open_as(member.user)

        watch_it_live(page, live_stack, token, paced)

        old_server.replies = [refunds("16")]
        split_traffic(page)
        experiment = compare_its_arms(page)
        with agent(live_stack, token, "-c", TRAFFIC) as traffic:
            end_of(traffic)
        label = page.get_by_role("link", name="Label")
        expect(label).to_be_visible(timeout=PATIENCE)  # without a reload
        decided = page.get_by_role("heading", name="better-clerk is better")
        judge_until(decided, open_as(judge), str(label.get_attribute("href")))
        assert page.url == experiment
        promote(page)

        with agent(live_stack, token, "-c", TRAFFIC) as traffic:
            before = len(old_server.requests)
            end_of(traffic)
            assert len(old_server.requests) == before


def watch_it_live(page: Page, stack: LiveStack, token: str, policy: Paced) -> None:
    """From an empty list to each new step and to the replay, without a reload."""
    page.goto("/sessions/")
    expect(page.get_by_text("No sessions yet")).to_be_visible()
    with agent(stack, token, str(ROOT / "examples" / "openai_agent.py"), "clerk") as example:
        page.get_by_role("link", name="Refund the order of the blue lamp").click(timeout=PATIENCE)
        page.wait_for_selector("[data-following][data-ready]")
        steps = page.locator("[data-steps] .step")
        for number, headline in enumerate(("list_orders", "refund", "The order is refunded."), start=1):
            policy.go_on()
            expect(steps).to_have_count(number)
            expect(steps.last).to_contain_text(headline)
        expect(page.locator("#episode-state")).to_contain_text("failure")
        assert end_of(example).startswith("Refunded: 16.")
    page.keyboard.press("o")
    page.wait_for_url("**/trajectories/*/**")
    expect(page.locator(".step").first).to_be_visible()


def split_traffic(page: Page) -> None:
    page.goto("/traffic-splits/")
    page.keyboard.press("n")
    page.fill("input[name=name]", "refunds")
    page.fill("input[name=environment]", "orders")
    page.select_option("select[name=champion]", label="clerk")
    page.select_option("select[name=policy_1]", label="clerk")
    page.select_option("select[name=policy_2]", label="better-clerk")
    page.get_by_role("button", name="Create the split").click()
    expect(page.get_by_role("heading", name="refunds", exact=True)).to_be_visible()


def compare_its_arms(page: Page) -> str:
    """Create the experiment; returns its URL."""
    page.keyboard.press("e")
    page.fill("input[name=name]", "Is the better clerk better?")
    page.fill("input[name=tasks]", str(TASKS))
    page.fill("input[name=min_tasks]", "4")
    page.get_by_role("button", name="Start experiment").click()
    expect(page.get_by_text("Waiting for pairs")).to_be_visible()
    return page.url


def judge_until(decided: Locator, page: Page, desk: str) -> None:
    """Judge by keyboard, blind, based on which order was refunded. A periodic task adds pairs and ends the experiment."""
    page.goto(desk)
    pair, look_again = page.locator("#pair"), page.locator("[data-desk-look]")
    guidelines = page.locator("#guidelines[open]")
    expect(pair.or_(guidelines).first).to_be_visible()
    if guidelines.count():
        page.keyboard.press("g")
    deadline = time.monotonic() + PATIENCE / 1000
    while not decided.is_visible():
        assert time.monotonic() < deadline
        if pair.is_visible():
            judge(page, pair)
        elif look_again.is_visible():
            page.keyboard.press("Enter")
            page.wait_for_timeout(1000)
        page.wait_for_timeout(100)


def judge(page: Page, pair: Locator) -> None:
    for name in ("clerk", "$"):  # who acts, and what it costs
        expect(pair).not_to_contain_text(name)
    shown = pair.get_attribute("data-pair")
    page.keyboard.press("2" if "17" in text_of(page, "left") else "6")
    page.keyboard.press("Enter")
    page.wait_for_function("shown => document.querySelector('#pair')?.dataset.pair !== shown", arg=shown)


def text_of(page: Page, side: str) -> str:
    cells: Locator = page.locator(f"#pair .pair-cell[data-side={side}]")
    return "\n".join(text for text in cells.all_inner_texts() if "refund" in text.lower())


def promote(page: Page) -> None:
    page.keyboard.press("p")
    dialog = page.locator("#promote")
    expect(dialog.locator("select[name=policy] option:checked")).to_have_text("better-clerk")
    dialog.locator("textarea[name=reason]").fill("It refunds the right order.")
    dialog.get_by_role("button", name="Promote").click()
    expect(page.locator("#experiment-facts")).to_contain_text("better-clerk")
    expect(page.locator("#experiment-facts .badge.accent")).to_contain_text("champion")
