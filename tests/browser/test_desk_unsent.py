"""Answers that are still to be sent: on a slow connection, without one, after closing the tab, and refused."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from apps.accounts.models import Membership
from apps.annotation.kinds.questions import Question, StepsAsks
from apps.annotation.models import Assignment, Preference, Queue
from tests.annotation import builders
from tests.browser.pair_desk import after, all_sent, answer, expect_ahead, press, ready, shown, stored_judgments

pytestmark = pytest.mark.browser
Open = Callable[..., Page]


@pytest.fixture
def queue(annotator: Membership) -> Queue:
    return builders.queue(of=annotator.workspace, items=12, steps=4)


@pytest.fixture
def page(open_as: Open, annotator: Membership, queue: Queue) -> Page:
    page = open_as(annotator.user)
    page.goto(f"/desk/{queue.pk}/")
    return ready(page)


def test_the_next_pair_is_on_the_screen_before_the_answer_has_arrived(page: Page):
    expect_ahead(page)
    held: list[Route] = []
    page.route("**/judge/", lambda route: held.append(route))
    pair = shown(page)
    press(page, "1", "Enter")
    assert shown(page) not in {"", pair}  # immediately, without waiting for the server
    expect(page.locator("[data-desk-saving]")).to_have_text("Saving…")
    assert not Preference.objects.exists()
    held[0].continue_()
    expect(page.locator("[data-desk-saving]")).to_have_text("")
    assert stored_judgments() == [(3, False)]


def test_a_pair_whose_answer_waits_for_others_is_not_shown_again(page: Page):
    expect_ahead(page)
    answer(page, "1")
    all_sent(page)  # the pair after the shown one came with the response
    press(page, "u")
    expect(page.locator("[name=answer]:checked")).to_have_count(1)
    held: list[Route] = []
    page.route("**/judge/", lambda route: route.continue_() if held else held.append(route))
    judged = {answer(page, "2"), answer(page, "3"), shown(page)}
    press(page, "5", "Enter")
    while not held:
        page.wait_for_timeout(50)
    held[0].continue_()
    all_sent(page)
    ready(page)
    assert len(judged) == 3
    assert shown(page) not in judged
    assert stored_judgments() == [(2, False), (1, False), (-1, False)]


def test_no_judged_pair_is_shown_again_while_answers_do_not_get_through(page: Page, console):
    console.expect("Failed to load resource")
    page.route("**/judge/", lambda route: route.abort())
    page.reload()
    expect_ahead(ready(page))
    judged = {answer(page, "1"), shown(page)}
    press(page, "2", "Enter")
    expect(page.locator("[data-desk-saving]")).to_contain_text("2 answers are not saved yet.")
    page.unroute("**/judge/")
    ready(page)
    assert shown(page) not in judged
    expect(page.locator("[data-desk-saving]")).to_have_text("")
    assert stored_judgments() == [(3, False), (2, False)]


def test_answers_survive_a_server_that_does_not_hear_and_a_closed_tab(page: Page, open_as: Open, queue: Queue, console):
    console.expect("Failed to load resource")
    page.route("**/judge/", lambda route: route.abort())
    page.reload()  # Chromium may send requests made immediately after page load without consulting the route
    expect_ahead(ready(page))
    first = shown(page)
    press(page, "2", "Enter")
    after(page, first)
    expect(page.locator("[data-desk-saving]")).to_contain_text("1 answer is not saved yet.")
    context = page.context
    page.close()
    again = context.new_page()
    again.goto(f"/desk/{queue.pk}/")
    ready(again)
    again.wait_for_function("old => document.querySelector('[data-pair]')?.dataset.pair !== old", arg=first)
    expect(again.locator("[data-desk-progress]")).to_contain_text("1 by you")
    assert stored_judgments() == [(2, False)]


@pytest.mark.parametrize("trouble", ["a proxy without a server", "full storage"])
def test_no_answer_is_dropped_while_it_cannot_be_stored(page: Page, queue: Queue, console, trouble):
    console.expect("Failed to load resource")
    isnt_found = trouble == "a proxy without a server"
    page.route("**/judge/", lambda route: route.fulfill(status=404, body="404") if isnt_found else route.abort())
    page.reload()
    expect_ahead(ready(page))
    press(page, "2", "Enter")
    expect(page.locator("[data-desk-saving]")).to_contain_text("1 answer is not saved yet.")
    if trouble == "full storage":
        page.evaluate("() => { Storage.prototype.setItem = () => { throw new DOMException('full') } }")
    press(page, "6", "Enter")
    expect(page.locator("[data-desk-saving]")).to_contain_text("2 answers are not saved yet.")
    page.unroute("**/judge/")
    expect(page.locator("[data-desk-saving]")).to_have_text("", timeout=20_000)
    assert stored_judgments() == [(2, False), (-2, False)]


def test_back_does_not_offer_a_pair_whose_answer_is_still_to_be_sent(page: Page, console):
    console.expect("Failed to load resource")
    page.route("**/judge/", lambda route: route.abort())
    page.reload()
    ready(page)
    press(page, "2", "Enter")
    expect(page.locator("[data-desk-saving]")).to_contain_text("1 answer is not saved yet.")
    page.goto("/queues/")
    page.go_back()
    expect(page.get_by_role("region", name="Already judged")).to_contain_text("will be sent")


def test_refused_answers_keep_their_texts(page: Page, console):
    console.expect("409")
    console.expect("Failed to load resource")
    page.route("**/judge/", lambda route: route.abort())
    page.reload()
    expect_ahead(ready(page))
    pairs = []
    for text in ("a long and careful reason", "another"):
        pairs.append(shown(page))
        press(page, "1", "r")
        with page.expect_response("**/draft/"):
            page.keyboard.type(text)
        press(page, "Control+Enter")
    Assignment.objects.filter(pk__in=pairs).update(state=Assignment.State.EXPIRED)
    page.unroute("**/judge/")
    expect(page.locator("#refused")).to_be_visible(timeout=20_000)
    expect(page.locator("#refused-texts")).to_have_text("a long and careful reason another")


def test_a_phone_tells_in_full_what_is_not_saved_and_keeps_its_heading(
    open_as: Open, annotator: Membership, queue: Queue, console
):
    console.expect("Failed to load resource")
    page = open_as(annotator.user, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.goto(f"/desk/{queue.pk}/")
    expect_ahead(ready(page))
    pair = shown(page)
    page.context.set_offline(True)
    press(page, "2", "Enter")
    after(page, pair)
    status = page.locator("[data-desk-saving]")
    expect(status).to_contain_text("1 answer is not saved yet.")
    assert status.evaluate("said => said.getBoundingClientRect().left") >= 0
    assert status.evaluate("said => said.getBoundingClientRect().right") <= 390
    expect(page.get_by_role("heading", level=1)).to_be_in_viewport(ratio=1)
    press(page, "3", "Enter")  # there is no next item
    page.wait_for_timeout(1500)
    expect(status).to_contain_text("2 answers are not saved yet.")
    page.context.set_offline(False)
    expect(page.locator("[data-desk-progress]")).to_contain_text("2 by you")
    assert stored_judgments() == [(2, False), (1, False)]


def test_a_refused_answer_shows_texts_of_questions_and_long_corrections_in_full(
    open_as: Open, annotator: Membership, console
):
    console.expect("409")
    asks = StepsAsks(
        every_step=False,
        questions=(Question("why", "Why?", type="text"), Question("what", "What here?", type="text", per="step")),
    )
    queue = builders.queue_of_trajectories(of=annotator.workspace, asks=asks)
    page = open_as(annotator.user)
    page.goto(f"/desk/{queue.pk}/")
    expect(page.locator("[data-walk][data-drafting]")).to_be_visible()
    press(page, "q")
    page.locator("[name='question.why']").fill("of a question")
    page.locator("[name='question.what']").fill("of a step")
    press(page, "Escape", "j", "e")
    page.locator("[name=content]").fill("x" * 3000)
    press(page, "Control+Enter")
    expect(page.locator("#row-1 [data-better]")).to_be_visible()
    page.route("**/judge/", lambda route: route.fulfill(status=409, json={"code": "place_lost", "detail": "Gone."}))
    press(page, "b", "Control+Enter")
    texts = page.locator("#refused-texts")
    expect(texts).to_contain_text("of a question")
    expect(texts).to_contain_text("Step 1: of a step")
    expect(texts).to_contain_text("x" * 3000)


def test_what_was_written_about_an_item_that_went_to_others_can_be_copied(page: Page):
    page.clock.install()
    page.reload()
    press(ready(page), "r")
    page.keyboard.type("half a reason")
    lost = {"code": "place_lost", "detail": "Your lease on this item ended."}
    pair = shown(page)
    page.route(f"**/{pair}/keep/", lambda route: route.fulfill(json=lost))
    seconds = int(page.locator("[data-desk]").get_attribute("data-lease") or "") // 3
    page.clock.fast_forward(1000 * (seconds - 30))
    page.mouse.move(5, 5)
    page.clock.fast_forward(1000 * 40)  # the desk says again that the item is on the screen
    expect(page.locator("#refused-texts")).to_have_text("half a reason")
    assert shown(page) != pair


def test_a_reason_for_a_flag_that_was_not_saved_is_there_when_one_tries_again(page: Page, console):
    console.expect("Failed to load resource")
    page.route("**/flag/", lambda route: route.abort())
    press(page, "!")
    page.keyboard.type("the same run twice")
    press(page, "Enter")
    expect(page.get_by_text("The server isn't responding.")).to_be_visible()
    expect(page.locator("[data-flag]")).to_have_attribute("aria-pressed", "false")
    press(page, "!")
    expect(page.locator("#flag [name=reason]")).to_have_value("the same run twice")
