"""The desk's layout menu: by keyboard, on another machine, in narrow windows, always with enough room for reading."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import Membership
from apps.annotation.kinds.questions import PairwiseAsks, RatingAsks, StepsAsks, comparison
from apps.annotation.models import DeskLayout, Preference, Queue
from tests.annotation import builders

pytestmark = pytest.mark.browser
Open = Callable[..., Page]

ASKS: dict[Queue.Kind, Any] = {
    Queue.Kind.PAIRWISE: PairwiseAsks((comparison("safe", "Which is safer?"),), True),
    Queue.Kind.STEPS: StepsAsks(),
    Queue.Kind.RATING: RatingAsks(),
}


def queue_of(kind: Queue.Kind, annotator: Membership, **layout: str) -> Queue:
    fields: dict[str, Any] = {"of": annotator.workspace, "items": 3, "steps": 6, "asks": ASKS[kind]}
    queue = builders.queue(**fields) if kind == Queue.Kind.PAIRWISE else builders.queue_of_trajectories(kind, **fields)
    Queue.objects.filter(pk=queue.pk).update(layout=layout)
    return queue


def open_desk(page: Page, queue: Queue) -> Page:
    page.goto(f"/desk/{queue.pk}/")
    expect(page.locator("[data-item][data-drafting]")).to_be_visible()
    return page


def choose(page: Page, setting: str, words: str) -> None:
    with page.expect_response("**/layout/arrange/"):
        page.get_by_role("group", name=setting, exact=True).get_by_text(words, exact=True).click()


def test_a_layout_is_made_saved_and_found_on_another_machine_by_keyboard_alone(open_as: Open, annotator: Membership):
    queue = queue_of(Queue.Kind.PAIRWISE, annotator)
    page = open_desk(open_as(annotator.user), queue)
    press = page.keyboard.press
    press("d")
    expect(page.locator("#layout-sides-columns")).to_be_focused()
    with page.expect_response("**/layout/arrange/"):
        press("ArrowRight")
    expect(page.locator("#layout-sides-stacked")).to_be_focused()  # the server's response didn't move the focus
    left, right = (page.locator(f"#row-5 [data-side={side}]") for side in ("left", "right"))
    assert left.bounding_box()["y"] < right.bounding_box()["y"]
    press("Enter")
    press("1")  # judging keys are disabled here
    expect(page.locator("[name=answer]:checked")).to_have_count(0)
    page.locator("#layout-name").focus()
    page.keyboard.type("Stacked, d and all")
    with page.expect_response("**/layout/save/"):
        press("Enter")
    expect(page.get_by_role("button", name="Stacked, d and all", exact=True)).to_have_attribute("aria-pressed", "true")
    press("Escape")
    expect(page.locator(".desk-scroll")).to_be_focused()
    press("2")
    with page.expect_response("**/judge/"):
        press("Enter")
    assert Preference.objects.count() == 1
    again = open_desk(open_as(annotator.user), queue)
    left, right = (again.locator(f"#row-5 [data-side={side}]") for side in ("left", "right"))
    assert left.bounding_box()["y"] < right.bounding_box()["y"]


def test_layouts_are_renamed_deleted_and_what_was_done_is_undone(open_as: Open, annotator: Membership):
    page = open_desk(open_as(annotator.user), queue_of(Queue.Kind.STEPS, annotator))
    page.keyboard.press("d")
    choose(page, "Text", "Largest")
    size = "parseFloat(getComputedStyle(document.querySelector('.desk-scroll')).fontSize)"
    assert page.evaluate(size) == 18
    name = page.get_by_label("Layout name")
    expect(page.get_by_role("button", name="Rename")).to_be_hidden()
    name.fill("Big")
    page.get_by_role("button", name="Save as new").click()
    expect(name).to_have_value("")
    name.fill("Bigger")
    page.get_by_role("button", name="Rename").click()
    expect(page.get_by_role("button", name="Bigger", exact=True)).to_be_visible()
    page.get_by_role("button", name="Delete “Bigger”", exact=True).click()
    expect(page.get_by_role("button", name="Bigger", exact=True)).to_have_count(0)
    assert page.evaluate(size) == 13
    page.get_by_role("button", name="Undo deleting “Bigger”").click()
    expect(page.get_by_role("button", name="Bigger", exact=True)).to_have_attribute("aria-pressed", "true")
    assert page.evaluate(size) == 18
    page.get_by_role("button", name="The queue's default").click()
    expect(page.get_by_role("button", name="The queue's default")).to_have_attribute("aria-pressed", "true")
    assert page.evaluate(size) == 13
    assert DeskLayout.objects.get().name == "Bigger"


@pytest.mark.parametrize("kind", list(Queue.Kind))
def test_no_layout_takes_reading_less_than_three_fifths_of_the_height(
    open_as: Open, annotator: Membership, kind: Queue.Kind
):
    everything = {"sides": "stacked", "bar": "right", "text": "largest", "task": "open", "questions": "open"}
    queue = queue_of(kind, annotator, **everything)
    page = open_as(annotator.user)
    for width, height in ((1440, 900), (1366, 768), (683, 384), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        open_desk(page, queue)
        for bar in ("right", "bottom", "line"):
            page.evaluate("(bar) => document.querySelector('.desk-work').setAttribute('data-layout-bar', bar)", bar)
            page.evaluate("document.dispatchEvent(new CustomEvent('desk:layout', { detail: { name: 'bar' } }))")
            assert page.evaluate("document.querySelector('.desk-scroll').clientHeight") >= int(0.6 * height)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            foot = page.locator("[data-submit], .answer .segments >> visible=true").evaluate_all(
                "each => Math.max(...each.map((one) => one.getBoundingClientRect().bottom))"
            )
            assert foot <= height or bar != "line"
            expect(page.locator("[data-submit]")).to_be_in_viewport(ratio=1)


def test_what_a_window_has_no_room_for_gives_way_and_the_menu_says_so(open_as: Open, annotator: Membership):
    queue = queue_of(Queue.Kind.PAIRWISE, annotator, bar="right")
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    page = open_desk(open_as(annotator.user, **phone), queue)
    bar, reading = (page.locator(selector).bounding_box() for selector in ("form.answer", ".desk-scroll"))
    assert bar["y"] >= reading["y"] + reading["height"] - 1
    expect(page.locator("#row-5 [data-side=right]")).to_be_hidden()
    page.locator("#layout-menu > summary").tap()
    expect(page.get_by_text("too narrow for two columns: sides are shown one at a time")).to_be_visible()
    expect(page.get_by_text("too narrow for the bar on the right: it stays below")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    choose(page, "Trajectories", "Stacked")
    expect(page.locator("#row-5 [data-side=right]")).to_be_visible()
    wide = open_desk(open_as(annotator.user), queue)
    bar, reading = (wide.locator(selector).bounding_box() for selector in ("form.answer", ".desk-scroll"))
    assert bar["x"] >= reading["x"] + reading["width"] - 1


def test_one_at_a_time_switches_by_h_and_l(open_as: Open, annotator: Membership):
    page = open_desk(open_as(annotator.user), queue_of(Queue.Kind.PAIRWISE, annotator, sides="one"))
    left, right = (page.locator(f"#row-5 [data-side={side}]") for side in ("left", "right"))
    switch = page.locator("[data-side-pick=right]")
    expect(left).to_be_visible()
    expect(right).to_be_hidden()
    for _ in range(2):
        page.keyboard.press("l")
        expect(right).to_be_visible()
        expect(left).to_be_hidden()
        expect(switch).to_have_attribute("aria-pressed", "true")
        page.keyboard.press("h")
        expect(left).to_be_visible()
        expect(switch).to_have_attribute("aria-pressed", "false")


def test_what_is_folded_opens_by_a_click_also_where_steps_come_later(open_as: Open, annotator: Membership):
    fields: dict[str, Any] = {"of": annotator.workspace, "items": 1, "steps": 40}
    queue = builders.queue_of_trajectories(Queue.Kind.STEPS, **fields)
    Queue.objects.filter(pk=queue.pk).update(layout={"results": "folded", "task": "open"})
    page = open_desk(open_as(annotator.user), queue)
    expect(page.locator(".desk-task[open]")).to_have_count(1)
    page.locator("[data-go='39']").click()
    last = page.locator("#row-38 .part[data-role=tool]").first
    expect(last.locator("details")).not_to_have_attribute("open", "")
    last.locator("summary").click()
    expect(last.locator(".part-body")).to_be_visible()
    page.keyboard.press("d")
    choose(page, "Results", "Open")
    expect(page.locator(".part[data-role=tool] > details:not([open])")).to_have_count(0)
    choose(page, "Task", "Folded")
    expect(page.locator(".desk-task[open]")).to_have_count(0)


def test_the_line_and_the_questions_that_keys_open_are_part_of_the_layout(open_as: Open, annotator: Membership):
    queue = queue_of(Queue.Kind.PAIRWISE, annotator)
    page = open_desk(open_as(annotator.user, viewport={"width": 1440, "height": 1200}), queue)
    with page.expect_response(lambda response: "bar=line" in (response.request.post_data or "")):
        page.keyboard.press("a")
        page.keyboard.press("z")
    expect(page.locator("form.answer")).to_have_attribute("data-bar", "line")
    again = open_desk(open_as(annotator.user, viewport={"width": 1440, "height": 1200}), queue)
    expect(again.locator("form.answer")).to_have_attribute("data-bar", "line")
    expect(again.locator(".aspects[open]")).to_have_count(1)
