"""The answer bar leaves most of the window for reading at any window size, and its keys and taps always work."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import Membership
from apps.annotation.kinds.questions import Asks, PairwiseAsks, Question, RatingAsks, StepsAsks, comparison
from apps.annotation.models import Preference, Queue, Rating
from tests.annotation import builders

pytestmark = pytest.mark.browser
Open = Callable[..., Page]

ASPECTS = PairwiseAsks(
    tuple(comparison(name, f"Which is more {name}?") for name in ["polite", "fast", "safe", "honest"]), True
)
QUESTIONS = RatingAsks(
    tuple(Question(name, f"Was it {name}?") for name in ["polite", "fast", "safe", "honest", "brief"])
)
ZOOMED = {"width": 683, "height": 425}
"""A window of 1366×850 at 200 %."""
PHONE = {"viewport": {"width": 390, "height": 664}, "has_touch": True, "is_mobile": True}


def queue_of(kind: Queue.Kind, annotator: Membership) -> Queue:
    asks: dict[Queue.Kind, Asks] = {
        Queue.Kind.PAIRWISE: ASPECTS,
        Queue.Kind.RATING: QUESTIONS,
        Queue.Kind.STEPS: StepsAsks(),
    }
    if kind == Queue.Kind.PAIRWISE:
        return builders.queue(of=annotator.workspace, items=2, steps=6, asks=asks[kind])
    return builders.queue_of_trajectories(kind, of=annotator.workspace, items=2, steps=6, asks=asks[kind])


def open_desk(page: Page, queue: Queue) -> Page:
    page.goto(f"/desk/{queue.pk}/")
    expect(page.locator("[data-item][data-drafting]")).to_be_visible()
    return page


def reading(page: Page) -> float:
    """The share of the window's height available for reading."""
    return page.evaluate("document.querySelector('.desk-scroll').clientHeight / innerHeight")


@pytest.mark.parametrize("kind", list(Queue.Kind))
def test_reading_keeps_three_fifths_of_the_height(open_as: Open, annotator: Membership, kind: Queue.Kind):
    page, queue = open_as(annotator.user), queue_of(kind, annotator)
    submit = page.locator("[data-submit]")
    for width, height in ((1366, 768), (683, 425), (720, 850), (390, 664), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        open_desk(page, queue)
        assert reading(page) >= 0.6, (width, height)
        expect(submit).to_be_in_viewport(ratio=1)
        page.keyboard.press("a")
        assert reading(page) >= 0.6, (width, height)
        page.keyboard.press("r")
        assert reading(page) >= 0.6, (width, height)
        expect(page.locator("[name=rationale]")).to_be_in_viewport(ratio=1)
        expect(submit).to_be_in_viewport(ratio=1)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_keys_of_a_line_work_and_z_shows_the_whole_bar(open_as: Open, annotator: Membership):
    page = open_desk(open_as(annotator.user, viewport=ZOOMED), queue_of(Queue.Kind.PAIRWISE, annotator))
    bar = page.locator("form.answer")
    expect(bar).to_have_attribute("data-bar", "line")
    press = page.keyboard.press
    press("2")
    press("a")
    for digit in "1345":  # each aspect is in the position of the scale
        expect(page.locator("[data-question].current")).to_be_in_viewport(ratio=1)
        press(digit)
    expect(page.get_by_role("radio", name="Left is clearly better")).to_be_checked()
    press("r")
    page.keyboard.type("says so")
    press("Escape")
    expect(page.locator("[name=rationale]")).not_to_be_in_viewport(ratio=1)
    top = page.locator(".pair-heads").bounding_box()
    press("z")
    expect(page.get_by_text("Aspects", exact=False).first).to_be_in_viewport(ratio=1)
    expect(page.locator("[name=rationale]")).to_have_value("says so")
    assert page.locator(".pair-heads").bounding_box() == top  # the content doesn't move
    press("Escape")
    expect(bar).to_have_attribute("data-bar", "line")
    with page.expect_response("**/judge/"):
        press("Enter")
    preference = Preference.objects.get()
    turn = 1 if preference.a_was_left else -1
    assert (turn * preference.strength, preference.rationale) == (2, "says so")
    assert {key: turn * grade for key, grade in preference.aspects.items()} == {
        "polite": 2,
        "fast": 0,
        "safe": -1,
        "honest": -2,
    }


def test_a_bar_that_fits_is_folded_by_choice_and_stays_so(open_as: Open, annotator: Membership):
    page = open_as(annotator.user)
    open_desk(page, queue_of(Queue.Kind.PAIRWISE, annotator))
    bar = page.locator("form.answer")
    expect(bar).to_have_attribute("data-bar", "full")
    with page.expect_response("**/layout/arrange/"):  # an earlier reload would abort the pending request
        page.keyboard.press("z")
    page.reload()
    expect(bar).to_have_attribute("data-bar", "line")
    page.keyboard.press("z")
    expect(bar).to_have_attribute("data-bar", "full")


def test_on_a_phone_a_rating_is_answered_by_taps_alone(open_as: Open, annotator: Membership):
    page = open_desk(open_as(annotator.user, **PHONE), queue_of(Queue.Kind.RATING, annotator))
    for name in ["polite", "fast", "safe", "honest", "brief"]:
        current = page.locator("[data-question].current")
        expect(current).to_contain_text(f"Was it {name}?")
        current.get_by_text("4", exact=True).tap()
    page.get_by_role("button", name="The whole answer bar").or_(page.get_by_text("More")).first.tap()
    expect(page.get_by_role("button", name="Skip")).to_be_in_viewport(ratio=1)
    with page.expect_response("**/judge/"):
        page.locator("[data-submit]").tap()
    assert set(Rating.objects.get().answers.values()) == {4}
