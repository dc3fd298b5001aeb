"""The replay in a real browser: by keyboard, with long trajectories, and with hostile content."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import Membership, Role
from apps.trajectories.models import Trajectory
from tests import factories
from tests.live import LiveStack

pytestmark = pytest.mark.browser
Open = Callable[..., Page]

EVIL = (
    "<script>window.harmed = 1</script><img src=x onerror='window.harmed = 2'><svg onload='window.harmed = 3'></svg>"
    "[click](javascript:window.harmed=4) </pre></div></article></main>"
    '" onmouseover="window.harmed = 5" \0 \ud800 \u202e <iframe srcdoc="<script>parent.harmed = 6</script>"></iframe>'
)


def step(number: int, *, heard: str = "", call: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    context = [{"role": "tool", "tool_call_id": f"c{number - 1}", "content": heard}] if heard else []
    function = call or {"name": "bash", "arguments": {"command": f"echo {number}"}}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
    }
    return {"context": context, "message": message, **more}


@pytest.fixture
def reader(live_stack: LiveStack) -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def run(reader: Membership) -> Trajectory:
    """40 steps; steps 11 and 31 fail; step 6 returns 3,000 lines."""
    outputs = {
        10: "Traceback (most recent call last):\nValueError",
        30: "Error: no such file",
        5: "".join(f"line {i}\n" for i in range(3000)),
    }
    steps = [step(i, heard=outputs.get(i - 1, f"output {i - 1}") if i else "") for i in range(40)]
    return factories.imported_run(steps, of=reader.workspace)


@pytest.fixture
def replay(open_as: Open, reader: Membership, run: Trajectory) -> Page:
    page = open_as(reader.user)
    page.goto(f"/trajectories/{run.pk}/")
    return ready(page)


def ready(page: Page) -> Page:
    page.wait_for_selector("[data-replay][data-ready]")
    return page


def at(page: Page, number: int) -> None:
    """Wait until the step is current, open, visible at the top of its pane, and named by the URL."""
    expect(page.locator(".step.current")).to_have_id(f"step-{number}")
    expect(page.locator(".outline-row.current .number")).to_have_text(str(number))
    expect(page.locator(f"#step-{number}:not(.waiting)")).to_be_visible()
    expect(page).to_have_url(re.compile(rf"/steps/{number}/$"))


def at_top(page: Page, number: int) -> None:
    """Wait until the step is at the top of its pane, which may take until steps above it have loaded."""
    page.wait_for_function(
        """number => {
            const pane = document.querySelector("[data-steps-pane]").getBoundingClientRect();
            return Math.abs(document.getElementById(`step-${number}`).getBoundingClientRect().y - pane.y) < 2;
        }""",
        arg=number,
    )


def test_the_keyboard_walks_the_run(replay: Page) -> None:
    at(replay, 1)
    for number in (2, 3, 4):
        replay.keyboard.press("j")
        at(replay, number)
        at_top(replay, number)
    replay.keyboard.press("k")
    at(replay, 3)
    replay.keyboard.press("Shift+G")
    at(replay, 40)
    replay.keyboard.press("g")
    replay.keyboard.press("g")
    at(replay, 1)
    replay.keyboard.press("e")
    at(replay, 11)
    replay.keyboard.press("e")
    at(replay, 31)
    replay.keyboard.press("Shift+E")
    at(replay, 11)


def test_a_step_closes_and_opens(replay: Page) -> None:
    body = replay.locator("#step-1 .step-body")
    expect(body).to_be_visible()
    replay.keyboard.press("Enter")
    expect(body).to_be_hidden()
    replay.keyboard.press("Enter")
    expect(body).to_be_visible()
    replay.keyboard.press("o")
    expect(replay.locator(".step-body:visible")).to_have_count(0)


def test_an_address_opens_at_its_step_and_a_reload_stays_there(replay: Page, run: Trajectory) -> None:
    for address in (f"/trajectories/{run.pk}/steps/25/", f"/trajectories/{run.pk}/#step-25"):
        replay.goto("about:blank")
        replay.goto(address)
        ready(replay)
        at(replay, 25)
        at_top(replay, 25)
    replay.keyboard.press("j")
    at(replay, 26)
    replay.reload()
    at(ready(replay), 26)


def test_search_lists_the_steps_that_say_it_and_goes_there(replay: Page) -> None:
    replay.keyboard.press("/")
    replay.keyboard.type("line 2999")
    expect(replay.locator("[data-outline-words]")).to_contain_text("1 step contains")
    replay.keyboard.press("Enter")
    at(replay, 6)
    replay.keyboard.press("/")
    replay.keyboard.press("Escape")
    expect(replay.locator("[data-outline-words]")).to_be_hidden()


def test_keys_that_end_a_composition_do_not_leave_the_search(replay: Page) -> None:
    field = replay.locator("[data-search]")
    replay.keyboard.press("/")
    replay.keyboard.type("line 2999")
    for key in ("Enter", "Escape"):
        field.dispatch_event("keydown", {"key": key, "isComposing": True})
    expect(field).to_be_focused()
    expect(field).to_have_value("line 2999")


def test_the_filter_leaves_errors_only(replay: Page) -> None:
    replay.select_option("[data-filter]", "error")
    at(replay, 11)
    replay.keyboard.press("j")
    at(replay, 31)
    expect(replay.locator("[data-steps] .step")).to_have_count(2)


def test_long_output_goes_on_when_asked(replay: Page) -> None:
    replay.goto(replay.url.replace("/steps/1/", "/steps/6/"))
    ready(replay)
    block = replay.locator("#step-6 .result .block")
    expect(block).to_contain_text("line 23")
    expect(block).not_to_contain_text("line 24\n")
    block.get_by_text("Show more").click()
    expect(block).to_contain_text("line 1000")
    replay.keyboard.press("j")
    at(replay, 7)
    replay.keyboard.press("k")
    at(replay, 6)
    expect(block).to_contain_text("line 1000")


def test_the_minimap_goes_where_it_is_clicked(replay: Page) -> None:
    box = replay.locator("[data-map] svg").bounding_box()
    assert box
    replay.mouse.click(box["x"] + box["width"] * 20.5 / 40, box["y"] + 8)
    at(replay, 21)


def test_scrolling_by_hand_names_the_step_on_top(replay: Page) -> None:
    replay.locator("[data-steps-pane]").hover()
    for _ in range(6):
        replay.mouse.wheel(0, 400)
        replay.wait_for_timeout(50)
    expect(replay.locator(".step.current")).not_to_have_id("step-1")
    number = int(replay.locator(".step.current").get_attribute("id").removeprefix("step-"))  # type: ignore[union-attr]
    at(replay, number)


def test_a_thousand_steps_keep_few_in_the_page_and_step_without_a_gap(open_as: Open, reader: Membership) -> None:
    body = "".join(f"{i}: some text to read\n" for i in range(400))
    run = factories.imported_run([step(i, heard=body if i else "") for i in range(1000)], of=reader.workspace)
    page = open_as(reader.user)
    page.goto(f"/trajectories/{run.pk}/steps/500/")
    ready(page)
    at(page, 500)
    for number in range(501, 531):
        page.keyboard.press("j")
        expect(page.locator(".step.current")).to_have_id(f"step-{number}")
        at_top(page, number)
    assert page.locator("[data-steps] .step").count() < 40
    assert page.locator(".outline-row").count() < 80
    page.keyboard.press("Shift+G")
    at(page, 1000)


def test_what_the_reader_looks_at_stays_while_steps_above_it_arrive(open_as: Open, reader: Membership) -> None:
    body = "".join(f"{i}\n" for i in range(400))
    run = factories.imported_run([step(i, heard=body if i else "") for i in range(200)], of=reader.workspace)
    page = open_as(reader.user)
    page.goto(f"/trajectories/{run.pk}/steps/100/")
    ready(page)
    for _ in range(15):
        page.keyboard.press("k")
        page.wait_for_timeout(30)
    at(page, 85)
    page.wait_for_load_state("networkidle")
    at_top(page, 85)


def test_hostile_content_does_nothing(open_as: Open, reader: Membership) -> None:
    function = {"name": EVIL, "arguments": json.dumps({EVIL: EVIL, "command": EVIL, "old": EVIL, "new": EVIL + "x"})}
    first = step(0, call=function, error=EVIL)
    first["message"] |= {"content": EVIL, "reasoning_content": EVIL}
    hostile = [
        *(
            EVIL,
            f"<html><body>{EVIL}</body></html>",
            json.dumps([{"title": EVIL, "url": "javascript:window.harmed=7"}]),
        ),
        *(
            json.dumps([{"a": EVIL, "b": 1}, {"a": EVIL, "b": 2}]),
            json.dumps({EVIL: [EVIL, {EVIL: EVIL}]}),
            f"\x1b[31m{EVIL}",
        ),
        *(f"diff --git a b\n--- a\n+++ b\n@@ -1 +1 @@\n-{EVIL}\n+{EVIL}", "x" * 10_000_000, "[" * 1000, "\0" * 5000),
    ]
    steps = [first, *(step(i, heard=text) for i, text in enumerate(hostile, start=1))]
    run = factories.imported_run(
        steps, of=reader.workspace, task_key=EVIL, tags=[EVIL], closing=[{"role": EVIL, "content": EVIL}]
    )
    page = open_as(reader.user)
    page.goto(f"/trajectories/{run.pk}/")
    ready(page)
    for number in range(2, len(steps) + 1):
        page.keyboard.press("j")
        at(page, number)
        for link in page.locator(f"#step-{number} [data-more], #step-{number} [data-source]").all()[:3]:
            link.dispatch_event("click")
    page.wait_for_load_state("networkidle")
    page.goto("/trajectories/")
    expect(page.locator(".row-link").first).to_be_visible()
    assert page.evaluate("window.harmed") is None
    assert page.locator("main").count() == 1


def test_two_runs_open_at_their_first_difference_and_step_together(open_as: Open, reader: Membership) -> None:
    left = factories.imported_run([step(i) for i in range(12)], of=reader.workspace, task_key="same")
    right = factories.imported_run(
        [step(90 + i if i in {4, 7} else i) for i in range(12)], of=reader.workspace, task_key="same"
    )
    page = open_as(reader.user)
    page.goto(f"/trajectories/{left.pk}/compare/{right.pk}/")
    current = page.locator("[data-row].current")
    expect(current).to_have_attribute("data-row", "4-4")
    expect(current.locator("mark").first).to_have_text("4")
    page.keyboard.press("d")
    expect(current).to_have_attribute("data-row", "7-7")
    expect(current.locator("mark").last).to_have_text("97")
    page.keyboard.press("k")
    expect(current).to_have_attribute("data-row", "4-4")
    page.get_by_text("4 identical steps").last.click()
    page.keyboard.press("Shift+G")
    expect(current).to_have_attribute("data-row", "11-11")


@pytest.mark.parametrize("width", [390, 1024])
def test_the_page_is_usable_on_narrow_screens(open_as: Open, reader: Membership, run: Trajectory, width: int) -> None:
    page = open_as(reader.user)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"/trajectories/{run.pk}/steps/6/")
    at(ready(page), 6)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Facts").click()
    expect(page.locator("#facts")).to_be_visible()
    page.keyboard.press("Escape")
    if width == 390:
        page.get_by_role("button", name="Outline").click()
        page.locator(".outline-row").nth(2).click()
        expect(page.locator("#outline")).to_be_hidden()
