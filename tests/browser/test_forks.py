"""From the tree of a task's runs into a replay and between its notable steps, by keyboard alone."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import Role
from apps.annotation.desk.actions import record
from apps.annotation.kinds.answers import InspectionAnswer, Label
from apps.annotation.models import Queue
from tests import factories
from tests.annotation import builders
from tests.annotation.desk.test_assignments import take
from tests.live import LiveStack

pytestmark = pytest.mark.browser


def step(number: int, what: str, *, heard: str = "fine", **more: Any) -> dict[str, Any]:
    function = {"name": "bash", "arguments": {"command": what}}
    call = {"id": f"c{number}", "type": "function", "function": function}
    context = [{"role": "tool", "tool_call_id": f"c{number - 1}", "content": heard}] if number else []
    return {"context": context, "message": {"role": "assistant", "content": None, "tool_calls": [call]}, **more}


def test_from_a_fork_to_a_step_and_on_to_errors_rewards_judgments_and_divergences(
    open_as: Callable[..., Page], live_stack: LiveStack
) -> None:
    reader = factories.member(Role.RESEARCHER)
    stem = [step(i, f"echo {i}") for i in range(4)]
    tail = [step(4, "make"), step(5, "make test", heard="Error: no rule", reward=0.5), *(step(i, "ls") for i in (6, 7))]
    fields = {"of": reader.workspace, "task_key": "forked"}
    run = factories.imported_run([*stem, *tail], success=True, **fields)
    for other in ("rm -r build", "git log"):
        factories.imported_run([*stem, step(4, other)], success=False, **fields)
    queue = builders.queue_of_trajectories(Queue.Kind.STEPS, of=reader.workspace, trajectories=[run])
    walk = InspectionAnswer("solved", None, tuple(Label(i, 1) for i in range(8)))
    record(assignment=take(queue, factories.annotator(of=reader.workspace, name="Ada", kind="rule")), answer=walk)

    page = open_as(reader.user)
    page.goto(f"/tasks/{run.task_id}/")
    page.keyboard.press("f")
    rows = page.locator(".fork-row")
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("steps 1–4")
    expect(rows.first).to_contain_text("1 ✓ 2 ✗")
    for _ in range(4):
        page.keyboard.press("j")
    focused = page.locator(".fork-row:has(:focus)")
    what = focused.locator(".headline").inner_text()
    page.keyboard.press("Enter")
    current = page.locator(".step.current")
    expect(current).to_have_id("step-5")
    expect(current.locator(".headline")).to_have_text(what)

    page.goto(f"/trajectories/{run.pk}/")
    page.wait_for_selector("[data-replay][data-ready]")
    page.keyboard.press("d")
    expect(current).to_have_id("step-5")
    expect(page.locator("#toasts")).to_contain_text("2 of 2 other trajectories")
    page.keyboard.press("Shift+E")
    expect(page.locator("#toasts")).to_contain_text("No earlier step has an error")
    page.keyboard.press("r")
    expect(current).to_have_id("step-6")
    page.locator("[data-remark]").nth(7).wait_for()
    page.keyboard.press("l")
    expect(current).to_have_id("step-7")
    page.keyboard.press("Shift+D")
    expect(current).to_have_id("step-5")
    page.keyboard.press("f")
    expect(page.locator("[data-filter]")).to_be_focused()
    page.select_option("[data-filter]", "reward")
    expect(current).to_have_id("step-6")
    expect(page.locator("[data-steps] .step")).to_have_count(1)
