"""Comparing pairs at the desk in a real browser, by keyboard alone."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from apps.accounts.models import Membership, Role
from apps.annotation.desk.actions import record
from apps.annotation.desk.assignments import annotator_of, next_assignment
from apps.annotation.kinds.answers import Choice
from apps.annotation.models import Assignment, Preference, Queue
from apps.annotation.queues.queue_lifecycle import pause_queue, revise_guidelines
from tests import factories
from tests.annotation import builders
from tests.browser.pair_desk import after, answer, expect_ahead, hold_next, press, ready, shown, stored_judgments

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


def test_ten_pairs_by_keyboard_alone_with_a_rationale_an_undo_and_a_skip(page: Page):
    for key in "123":
        answer(page, "j", "j", key)
    submits = page.locator(".rationale .while-typing")
    expect(submits).to_be_hidden()
    press(page, "r")
    expect(submits).to_be_visible()
    page.keyboard.type("4 asks first")  # digits typed into text aren't answers
    press(page, "Escape")
    answer(page, "4")
    press(page, "u")
    expect(page.get_by_role("status").get_by_text("Undone: your answer “tie”")).to_be_visible()
    expect(page.locator("[name=rationale]")).to_have_value("4 asks first")
    expect(page.locator("[name=answer][value='0']")).to_be_checked()
    answer(page, "5")
    pair = shown(page)
    press(page, "s")
    expect(page.locator("#skip")).to_be_visible()
    page.keyboard.type("too long")
    press(page, "Enter")
    after(page, pair)
    for key in "6701":
        answer(page, key)
    pair = shown(page)
    press(page, "2")
    page.keyboard.press("Control+Enter")
    after(page, pair)
    expect(page.locator("[data-desk-progress]")).to_contain_text("9 by you")
    assert stored_judgments() == [
        (3, False),
        (2, False),
        (1, False),
        (-1, False),
        (-2, False),
        (-3, False),
        (0, True),
        (3, False),
        (2, False),
    ]
    assert Preference.objects.exclude(retracted_at=None).get().rationale == "4 asks first"
    assert Assignment.objects.get(state=Assignment.State.SKIPPED).skip_reason == "too long"
    assert not Preference.objects.filter(seconds__gt=60).exists()


def test_the_next_pair_comes_with_the_answer_to_the_one_before(page: Page):
    expect_ahead(page)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url.split("/")[-2]))
    for key in "1234":
        answer(page, key)
    expect(page.locator("[data-desk-progress]")).to_contain_text("4 by you, 8 left for you")
    assert requests.count("judge") == 4
    assert "next" not in requests


def test_numbers_from_before_an_answer_do_not_replace_newer_ones(page: Page):
    progress = page.locator("[data-desk-progress]")
    route = hold_next(page, answers_later=False)  # later responses would correct the numbers
    stale = route.fetch()
    press(page, "2", "Enter")  # nothing is preloaded: the desk waits for the held request
    expect(progress).to_contain_text("1 by you")
    assert stale.json()["progress"]["mine"] == 0
    route.fulfill(response=stale)
    ready(page)
    expect(progress).to_contain_text("1 by you")


def test_a_pair_that_came_back_by_undo_comes_once(page: Page):
    """The next item was requested before the undo, and the response after it contains the restored pair."""
    route = hold_next(page)
    first = shown(page)
    press(page, "1", "Enter")
    expect(page.locator("[data-desk-progress]")).to_contain_text("1 by you")
    press(page, "u")
    after(page, first)
    stale = route.fetch()
    assert stale.json()["item"] == page.locator("[data-pair]").get_attribute("data-url")
    route.fulfill(response=stale)
    back = answer(page, "2")
    for key in "356":
        assert answer(page, key) != back
    expect(page.locator("[data-desk-progress]")).to_contain_text("4 by you")
    assert stored_judgments() == [(2, False), (1, False), (-1, False), (-2, False)]


def test_a_dialog_closes_with_the_pair_that_it_is_about(page: Page):
    expect_ahead(page)
    pair = shown(page)
    press(page, "s")
    record(assignment=Assignment.objects.get(pk=pair), answer=Choice(1))  # in another tab
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    expect(page.get_by_role("region", name="Already judged")).to_be_visible()
    expect(page.locator("#skip")).to_be_hidden()


def test_the_newer_of_two_drafts_is_shown(page: Page):
    press(page, "6", "r")
    with page.expect_response("**/draft/"):
        page.keyboard.type("written later, in another browser")
    page.wait_for_timeout(1000)
    page.evaluate(
        """() => { const key = Object.keys(localStorage).find((each) => each.includes('draft:'));
        const older = { ...JSON.parse(localStorage[key]), rationale: 'older', seconds: 0 };
        localStorage[key] = JSON.stringify(older); }"""
    )
    page.reload()
    ready(page)
    expect(page.locator("[name=rationale]")).to_have_value("written later, in another browser")


def test_a_draft_survives_a_closed_tab(page: Page, queue: Queue):
    pair = shown(page)
    press(page, "6", "r")
    page.keyboard.type("half a thought")
    context = page.context
    page.close()
    again = context.new_page()
    again.goto(f"/desk/{queue.pk}/")
    ready(again)
    assert shown(again) == pair
    expect(again.locator("[name=rationale]")).to_have_value("half a thought")
    expect(again.locator("[name=answer][value='-2']")).to_be_checked()


def test_an_undone_skip_brings_back_what_was_entered_a_moment_before_it(page: Page):
    pair = shown(page)
    press(page, "r")
    page.keyboard.type("half a thought")
    press(page, "Escape", "s", "Enter")
    after(page, pair)
    press(page, "u")
    expect(page.locator("[name=rationale]")).to_have_value("half a thought")


def test_what_one_works_on_when_the_queue_is_paused_may_be_finished(page: Page, queue: Queue, console):
    console.expect("409")  # no more items are assigned
    pair = shown(page)
    pause_queue(queue=queue, by=None)
    page.reload()
    ready(page)
    assert shown(page) == pair
    with page.expect_response("**/judge/"):  # the desk does not wait for it
        press(page, "1", "Enter")
    expect(page.get_by_role("heading", name="This queue is paused")).to_be_visible()
    expect(page.locator("[data-desk-progress]")).to_contain_text("1 by you")
    assert stored_judgments() == [(3, False)]


def test_guidelines_open_by_themselves_the_first_time_and_when_they_change(page: Page, queue: Queue):
    guidelines = page.locator("#guidelines")
    revise_guidelines(queue=queue, text="# Be **fair**", by=None)
    page.reload()
    expect(guidelines.locator("h3")).to_have_text("Be fair")
    press(page, "g")
    expect(guidelines).to_be_hidden()
    expect(page.locator(".desk-scroll")).to_be_focused()
    press(page, "g")
    expect(guidelines).to_be_visible()
    page.reload()
    ready(page)
    expect(guidelines).to_be_hidden()
    revise_guidelines(queue=queue, text="# Be **kind**", by=None)
    page.reload()
    expect(guidelines.locator("h3")).to_have_text("Be kind")


def test_an_answer_names_the_guidelines_that_could_be_read(page: Page, queue: Queue):
    expect_ahead(page)
    revise_guidelines(queue=queue, text="# Be fair", by=None)
    answer(page, "1")
    answer(page, "2")  # it was preloaded before; the next one wasn't
    changed = page.locator(".toast", has_text="The guidelines have changed.")
    answer(page, "3")
    page.locator("[name=answer][value='-2']").check(force=True)  # a draft
    changed.get_by_role("button", name="Read them").click()
    guidelines = page.locator("#guidelines")
    expect(guidelines.get_by_text("Be fair")).to_be_visible()
    press(page, "Escape")
    expect(guidelines).to_be_hidden()
    ready(page)
    answer(page)
    expect(page.locator("[data-desk-progress]")).to_contain_text("4 by you")
    versions = Preference.objects.order_by("pk").values_list("strength", "a_was_left", "guideline_version")
    assert [(s if left else -s, version) for s, left, version in versions] == [(3, 0), (2, 0), (1, 0), (-2, 1)]


def test_a_key_that_comes_before_the_next_pair_is_not_used_and_says_so(page: Page):
    route = hold_next(page)
    press(page, "2", "Enter")  # nothing is preloaded
    expect(page.locator("[data-desk-coming]")).to_be_visible()
    press(page, "6")
    expect(page.locator(".toast")).to_contain_text("“6” was ignored")
    route.continue_()
    ready(page)
    expect(page.locator(".toast")).to_contain_text("“6” was pressed before this item had loaded and was ignored.")
    expect(page.locator("[name=answer]:checked")).to_have_count(0)
    assert stored_judgments() == [(2, False)]


def test_a_key_that_is_meant_for_what_an_undo_brings_back_judges_nothing_else(page: Page):
    expect_ahead(page)
    answer(page, "1")
    second = shown(page)
    held: list[Route] = []
    page.route("**/undo/", lambda route: held.append(route))
    press(page, "u", "3", "Enter")
    expect(page.locator(".toast")).to_contain_text("was ignored")
    assert shown(page) == second
    while not held:
        page.wait_for_timeout(50)
    held[0].continue_()
    after(page, second)
    expect(page.get_by_role("radio", name="Left is much better")).to_be_checked()  # with its previous answer
    answer(page, "3")
    assert shown(page) == second
    expect(page.locator("[name=answer]:checked")).to_have_count(0)
    expect(page.locator("[data-desk-progress]")).to_contain_text("1 by you")
    assert stored_judgments() == [(1, False)]


def test_a_pair_that_comes_back_from_the_browsers_store_is_shown_as_judged(page: Page):
    """Back and Forward restore the cached page, whose pair may have been judged in another tab since."""
    pair = Assignment.objects.get(pk=shown(page))
    record(assignment=pair, answer=Choice(1))
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    region = page.get_by_role("region", name="Already judged")
    expect(region).to_contain_text("You already judged this")
    expect(region).to_be_focused()
    expect(page.locator("[data-answer]")).to_have_count(0)
    press(page, "Enter")
    ready(page)
    assert shown(page) != str(pair.pk)
    answer(page, "2")
    expect(page.locator("[data-desk-progress]")).to_contain_text(
        "2 by you"
    )  # the next pair may be shown before the answer has reached the server
    assert Preference.objects.valid().count() == 2


def test_a_skip_link_leads_from_reading_to_the_answer(page: Page):
    press(page, "Tab")
    expect(page.get_by_role("link", name="Skip to the answer")).to_be_focused()
    press(page, "Enter")
    expect(page.get_by_role("radio", name="Left is much better")).to_be_focused()


def test_flag_folds_and_sides_have_keys(page: Page):
    press(page, "!")
    page.keyboard.type("odd")
    press(page, "Enter")
    expect(page.locator("[data-flag]")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".pair-fold > summary")).to_have_text("1 identical step")
    expect(page.locator("#row-0")).to_be_hidden()
    press(page, "o")
    expect(page.locator("#row-0")).to_be_visible()
    right = page.locator("#row-1 .pair-cell[data-side=right]")
    expect(right).to_be_visible()
    press(page, "h")
    expect(right).to_be_hidden()
    press(page, "h")
    expect(right).to_be_visible()


def test_who_listens_hears_which_task_came_whose_step_it_is_and_what_each_answer_means(page: Page, queue: Queue):
    tasks = list(queue.items.order_by("position").values_list("task__instruction", flat=True))
    expect(page.get_by_role("group", name=f"Task: {tasks[0]}")).to_be_focused()
    answer(page, "2")
    expect(page.get_by_role("group", name=f"Task: {tasks[1]}")).to_be_focused()
    heads = page.get_by_role("heading", level=2)
    expect(heads.filter(has_text="Left, step 2, ")).to_have_count(1)
    expect(heads.filter(has_text="Right, step 2, ")).to_have_count(1)
    names = ["much", "clearly", "slightly"]
    form = page.get_by_role("form", name="Your answer")
    for side, key in (("Left", "1"), ("Left", "3"), ("Right", "5"), ("Right", "7")):
        grade = names[int(key) - 1] if side == "Left" else names[7 - int(key)]
        expect(form.get_by_role("radio", name=f"{side} is {grade} better")).to_have_attribute("data-key", key)


def test_at_the_end_the_desk_says_so(open_as: Open, annotator: Membership):
    queue = builders.queue(of=annotator.workspace, items=1)
    page = open_as(annotator.user)
    page.goto(f"/desk/{queue.pk}/")
    ready(page)
    press(page, "4", "Enter")
    expect(page.get_by_role("heading", name="All done")).to_be_visible()
    expect(page.get_by_role("region", name="Nothing to judge")).to_be_focused()
    expect(page.locator("[data-desk-mine]")).to_have_text("1")


def test_a_phone_shows_one_side_and_does_everything(open_as: Open, annotator: Membership, queue: Queue):
    page = open_as(annotator.user, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.goto(f"/desk/{queue.pk}/")
    ready(page)
    left, right = (page.locator(f"#row-1 .pair-cell[data-side={side}]") for side in ("left", "right"))
    expect(left).to_be_visible()
    expect(right).to_be_hidden()
    page.locator("[data-side-pick=right]").tap()
    expect(right).to_be_visible()
    expect(left).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    pair = shown(page)
    page.get_by_title("Right is clearly better").tap()
    with page.expect_response("**/judge/"):
        page.locator("[data-submit]").tap()
    after(page, pair)
    assert stored_judgments() == [(-2, False)]
    page.get_by_role("button", name="Undo").tap()  # an icon with an accessible name
    expect(page.locator("#toasts")).to_contain_text("Undone")
    assert stored_judgments() == []
    clear = page.locator("#toasts .toast").evaluate(
        "toast => toast.getBoundingClientRect().top >= document.querySelector('.page-head').getBoundingClientRect().bottom"
    )
    assert clear, "the message covers the actions of the head"


def test_a_review_on_a_phone_shows_its_heading_and_prints_no_keys(open_as: Open, annotator: Membership):
    queue = builders.queue(of=annotator.workspace, overlap=2)
    for who, strength in ((annotator_of(annotator), 2), (builders.rule(of=annotator.workspace), -1)):
        assignment = next_assignment(queue=queue, annotator=who)
        assert assignment
        record(assignment=assignment, answer=Choice(strength))
    page = open_as(factories.member(Role.REVIEWER, of=annotator.workspace).user, viewport={"width": 390, "height": 844})
    page.goto(f"/queues/{queue.pk}/review/")
    heading = page.get_by_role("heading", name="Review", level=1)
    expect(heading).to_be_visible()
    assert heading.evaluate("heading => heading.scrollWidth <= heading.clientWidth")  # not truncated
    assert page.locator("kbd:visible").count() == 0
