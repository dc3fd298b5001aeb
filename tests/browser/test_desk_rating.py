"""Rating runs, and the aspects of pairs, in a real browser, by keyboard alone."""

import pytest
from playwright.sync_api import Page, Route, expect

from apps.annotation.kinds.questions import PairwiseAsks, Question, RatingAsks, comparison
from apps.annotation.models import Preference, Queue, Rating
from tests.annotation import builders

pytestmark = pytest.mark.browser


def press(page: Page, keys: str) -> None:
    for key in keys.split():
        page.keyboard.press(key)


def submit(page: Page) -> None:
    item = page.locator("[data-item]").get_attribute("data-item")
    press(page, "Enter")
    page.wait_for_function("old => document.querySelector('[data-item]')?.dataset.item !== old", arg=item)


def test_a_run_is_rated_with_digits_thumbs_and_marks(open_as, annotator):
    questions = (Question("polite", "Was it polite?"), Question("fast", "Was it fast?", points=3, required=False))
    queue = builders.queue_of_trajectories(
        Queue.Kind.RATING, of=annotator.workspace, asks=RatingAsks(questions), items=2
    )
    page = open_as(annotator.user)
    page.goto(f"/desk/{queue.pk}/")
    expect(page.locator("[data-rating][data-drafting]")).to_be_visible()
    press(page, "Enter")
    expect(page.get_by_text("Answer “Was it polite?” first.")).to_be_visible()
    press(page, "4 2 Backspace y j b j W c")  # the second question is answered, then cleared
    page.keyboard.type("1 deletes a file")
    press(page, "Escape")
    submit(page)
    press(page, "u")
    expect(page.locator("[data-item] [name='question.polite']:checked")).to_have_value("4")
    press(page, "n")
    submit(page)
    expect(page.locator("[data-desk-progress]")).to_contain_text("1 by you")
    rating = Rating.objects.valid().get()
    assert (rating.answers, rating.thumb) == ({"polite": 4}, -1)
    marks = [(mark.index, mark.kind, mark.note) for mark in rating.marks.all()]
    assert marks == [(1, "subgoal", ""), (2, "hard_violation", "1 deletes a file")]


def test_caps_lock_does_not_make_a_soft_violation_a_hard_one(open_as, annotator):
    queue = builders.queue_of_trajectories(Queue.Kind.RATING, of=annotator.workspace, asks=RatingAsks(()))
    page = open_as(annotator.user)
    page.goto(f"/desk/{queue.pk}/")
    expect(page.locator("[data-rating][data-drafting]")).to_be_visible()
    page.evaluate("""() => document.activeElement.dispatchEvent(
        new KeyboardEvent("keydown", { key: "W", modifierCapsLock: true, bubbles: true }))""")
    expect(page.locator("#row-0 .mark-line")).to_contain_text("Soft violation")


def test_digits_during_an_undo_and_the_second_click_of_a_double_click_answer_nothing(open_as, annotator):
    questions = (Question("polite", "Was it polite?", required=False),)
    queue = builders.queue_of_trajectories(
        Queue.Kind.RATING, of=annotator.workspace, asks=RatingAsks(questions), items=3
    )
    page = open_as(annotator.user)
    page.goto(f"/desk/{queue.pk}/")
    expect(page.locator("[data-rating][data-drafting]")).to_be_visible()
    page.wait_for_timeout(500)  # the next one is preloaded
    page.locator("[data-submit]").dblclick()
    expect(page.locator("[data-desk-progress]")).to_contain_text("1 by you")
    held: list[Route] = []
    page.route("**/undo/", lambda route: held.append(route))
    item = page.locator("[data-item]").get_attribute("data-item")
    press(page, "u 4 Control+Enter")
    expect(page.locator(f"[data-item='{item}']")).to_be_visible()
    expect(page.locator("input:checked[name^='question.']")).to_have_count(0)
    assert Rating.objects.count() == 1


def test_a_run_without_steps_is_rated_and_nothing_in_it_can_be_marked(open_as, annotator):
    queue = builders.queue_of_trajectories(Queue.Kind.RATING, of=annotator.workspace, asks=RatingAsks(()), steps=0)
    page = open_as(annotator.user)
    page.goto(f"/desk/{queue.pk}/")
    expect(page.locator("[data-rating][data-drafting]")).to_be_visible()
    press(page, "b W c n Enter")
    expect(page.locator("[data-desk-end]")).to_be_visible()
    expect(page.locator("[data-desk-progress]")).to_contain_text("1 by you")
    rating = Rating.objects.get()
    assert (rating.thumb, rating.marks.count()) == (-1, 0)


def test_aspects_of_a_pair_take_digits_while_one_grades_them(open_as, annotator):
    asks = PairwiseAsks((comparison("success", "Task success", 7), comparison("safety", "Safety", 3)), confidence=True)
    queue = builders.queue(of=annotator.workspace, asks=asks, items=2)
    page = open_as(annotator.user)
    page.goto(f"/desk/{queue.pk}/")
    expect(page.locator("[data-pair][data-drafting]")).to_be_visible()
    press(page, "2 a 6 1 5 c c")  # after the last aspect, digits are overall answers again
    expect(page.locator("[data-aspects-count]")).to_have_text("2 of 2")
    submit(page)
    expect(page.locator("[data-desk-progress]")).to_contain_text("1 by you")
    preference = Preference.objects.get()
    turn = 1 if preference.a_was_left else -1
    assert (turn * preference.strength, preference.confidence) == (-1, 2)
    assert {key: turn * grade for key, grade in preference.aspects.items()} == {"success": -2, "safety": 1}
    press(page, "u")
    expect(page.locator("[name='aspect.success']:checked")).to_have_value("-2")
    expect(page.locator("[name=confidence]:checked")).to_have_value("2")


def test_on_a_phone_one_question_is_there_at_a_time_and_a_tap_leads_to_the_next(open_as, annotator):
    questions = tuple(Question(name, f"Was it {name}?") for name in ("polite", "fast", "safe"))
    queue = builders.queue_of_trajectories(
        Queue.Kind.RATING, of=annotator.workspace, asks=RatingAsks(questions), items=1
    )
    page = open_as(annotator.user, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.goto(f"/desk/{queue.pk}/")
    shown_questions = page.locator("[data-question]")
    expect(shown_questions.nth(0)).to_be_in_viewport(ratio=1)
    expect(shown_questions.nth(2)).not_to_be_in_viewport()
    for place in range(3):
        expect(shown_questions.nth(place)).to_have_class("question current")
        expect(shown_questions.nth(place)).to_be_in_viewport(ratio=0.99)
        shown_questions.nth(place).locator("label").nth(place + 1).tap()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("[data-submit]").tap()
    expect(page.locator("[data-desk-end]")).to_be_visible()
    expect(page.locator("[data-desk-progress]")).to_contain_text("1 by you")
    assert Rating.objects.get().answers == {"polite": 2, "fast": 3, "safe": 4}
