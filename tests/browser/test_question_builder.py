"""Building a queue's questions in the form builder and answering them, by keyboard alone."""

import re

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import Membership, Role
from apps.annotation.kinds.questions import Question, RatingAsks, StepsAsks
from apps.annotation.models import Inspection, Queue, Rating
from apps.annotation.queues.items import fill
from contract.questions import Condition
from tests import factories
from tests.annotation import builders
from tests.live import LiveStack

pytestmark = pytest.mark.browser
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def researcher(live_stack: LiveStack) -> Membership:
    return factories.member(Role.RESEARCHER)


def press(page: Page, keys: str) -> None:
    for key in keys.split():
        page.keyboard.press(key)


def submit(page: Page) -> None:
    item = page.locator("[data-item]").get_attribute("data-item")
    press(page, "Enter")
    page.wait_for_function(
        "old => ![old, undefined].includes(document.querySelector('[data-drafting]')?.dataset.item)", arg=item
    )
    # The next item may be shown before the answer has reached the server.
    page.wait_for_function("() => !Object.keys(localStorage).some(key => key.includes('outbox:'))")


def card(page: Page, number: int):
    return page.locator(".builder-card").nth(number - 1)


def preview(page: Page):
    return page.locator("#questions-preview [data-question]")


@pytest.mark.parametrize("viewport", [None, PHONE], ids=["desktop", "phone"])
def test_five_questions_are_built_and_three_items_answered_by_keyboard(open_as, researcher, viewport):
    for _ in range(3):
        builders.attempt(factories.task(of=researcher.workspace), 2)
    page = open_as(researcher.user, **({"viewport": viewport} if viewport else {}))
    page.goto("/queues/new/")
    page.get_by_role("radio", name="Rate a trajectory").check(force=True)
    expect(page.locator(".builder-card")).to_have_count(2)  # the default questions of ratings
    expect(preview(page)).to_have_count(2)
    page.locator("[data-builder-add]").focus()
    press(page, "Enter")  # the new question has the focus
    page.keyboard.type("What went wrong?")
    card(page, 3).get_by_label("Type").select_option("choices")
    card(page, 3).get_by_label("Options").fill("a tool\nthe plan\nnothing")
    press(page, "Tab")
    page.locator("[data-builder-add]").press("Enter")
    page.keyboard.type("Which tool?")
    card(page, 4).get_by_label("Type").select_option("text")
    card(page, 4).locator("[data-field=when]").select_option(label="only if “What went wrong?” is …")
    card(page, 4).get_by_label("a tool").check()
    card(page, 4).get_by_role("button", name="Duplicate").press("Enter")
    card(page, 5).get_by_label("the plan").check()  # of the duplicate only
    card(page, 5).locator("[data-field=name]").focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("How sure are you?")
    card(page, 5).get_by_label("Type").select_option("choice")
    card(page, 5).get_by_label("Options").fill("not\nquite")
    card(page, 5).locator("[data-field=when]").select_option("")
    card(page, 5).get_by_label("Required").uncheck()
    page.keyboard.press("Alt+ArrowUp")
    expect(card(page, 4).locator("[data-field=name]")).to_have_value("How sure are you?")
    expect(preview(page)).to_have_count(5)
    expect(preview(page).nth(4)).to_be_hidden()  # only if a tool failed
    page.locator("#questions-preview").get_by_text("a tool").click()
    expect(preview(page).nth(4)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    press(page, "Control+Enter")
    page.wait_for_url(re.compile(r"/queues/[0-9a-f-]{36}/$"))
    queue = Queue.objects.get()
    assert RatingAsks.from_json(queue.asks).questions == (
        *RatingAsks.usual,
        Question("what-went-wrong", "What went wrong?", type="choices", options=("a tool", "the plan", "nothing")),
        Question("how-sure-are-you", "How sure are you?", type="choice", options=("not", "quite"), required=False),
        Question("which-tool", "Which tool?", type="text", when=Condition("what-went-wrong", ("a tool",))),
    )
    if queue.state == Queue.State.FILLING:
        fill(queue.pk)

    page.goto(f"/desk/{queue.pk}/")
    expect(page.locator("[data-rating][data-drafting]")).to_be_visible()
    press(page, "4 5 1 l 2")  # two scales, a tool, then the next question: "quite"
    page.keyboard.type("search 1")  # now the last question is shown, where digits are text
    press(page, "Enter y")
    submit(page)
    press(page, "1 1 3 l y")  # nothing failed; confidence is left empty
    submit(page)
    press(page, "5 5 1 2 l l Enter Enter")
    expect(page.get_by_text("Answer “Which tool?” first.")).to_be_visible()
    page.keyboard.type("all")
    press(page, "Enter n Enter")
    expect(page.locator("[data-desk-progress]")).to_contain_text("3 by you")
    first, second, third = [rating.answers for rating in Rating.objects.order_by("pk")]
    usual = "how-well-was-the-task-done", "how-pleasant-was-it-to-work-with"
    assert first == {
        **dict(zip(usual, (4, 5), strict=True)),
        "what-went-wrong": ["a tool"],
        "how-sure-are-you": "quite",
        "which-tool": "search 1",
    }
    assert second == {**dict(zip(usual, (1, 1), strict=True)), "what-went-wrong": ["nothing"]}
    assert third["what-went-wrong"] == ["a tool", "the plan"]
    assert third["which-tool"] == "all"


def test_questions_of_steps_are_answered_at_each_and_come_back_by_undo(open_as, researcher):
    why = Question("why", "Why?", type="choice", options=("a tool", "the plan"), per="step")
    note = Question("note", "Which?", type="text", required=False, per="step", when=Condition("why", ("a tool",)))
    sure = Question("sure", "How sure?", 3)
    asks = StepsAsks(questions=(why, note, sure), every_step=False)
    queue = builders.queue_of_trajectories(of=researcher.workspace, asks=asks, steps=2, items=2)
    page = open_as(researcher.user)
    page.goto(f"/desk/{queue.pk}/")
    expect(page.locator("[data-labels][data-drafting]")).to_be_visible()
    press(page, "v q 1")
    page.keyboard.type("look")
    press(page, "Enter 3")  # the last question; digits are labels again
    press(page, "Enter")
    expect(page.get_by_text("Answer “Why?” at step 2 first.")).to_be_visible()
    press(page, "q 2 q 3")  # 3 labels step 2 as good
    submit(page)
    press(page, "u")
    expect(page.locator("[name='question.sure']:checked")).to_have_value("3")
    submit(page)
    walk = Inspection.objects.valid().get()
    assert walk.answers == {"sure": 3}
    assert walk.step_answers == {"0": {"why": "a tool", "note": "look"}, "1": {"why": "the plan"}}
    assert [(label.index, label.value) for label in walk.labels.all()] == [(1, 1)]


def test_json_is_refused_by_its_line_and_taken_as_it_is(open_as, researcher, tmp_path):
    builders.pair(of=researcher.workspace)
    page = open_as(researcher.user)
    page.goto("/queues/new/")
    expect(page.locator(".builder-card")).to_have_count(4)
    page.get_by_text("As JSON: export, import").click()
    page.get_by_label("Questions", exact=False).locator("visible=true").last.fill(
        '[\n{"name": "Safety", "pionts": 3}\n]'
    )
    expect(page.locator("#questions-preview")).to_contain_text("Line 2, question 1 (“Safety”)")
    file = tmp_path / "questions.json"
    file.write_text('[{"name": "Safety", "type": "comparison", "points": 3}]')
    page.locator("[data-builder-import]").set_input_files(file)
    expect(page.locator(".builder-card")).to_have_count(1)
    expect(preview(page)).to_have_count(1)
    with page.expect_download() as download:
        page.locator("[data-builder-export]").click()
    assert '"points": 3' in download.value.path().read_text()


def test_without_scripts_the_json_is_what_one_edits(open_as, researcher):
    builders.pair(of=researcher.workspace)
    page = open_as(researcher.user, java_script_enabled=False)
    page.goto("/queues/new/")
    expect(page.locator("[data-builder-cards]")).to_be_hidden()
    page.locator("#id_questions").fill('[{"name": "Safety", "type": "comparison"}]')
    page.get_by_role("button", name="Create queue").click()
    expect(page).to_have_url(re.compile(r"/queues/[0-9a-f-]{36}/$"))
    assert [question["key"] for question in Queue.objects.get().asks["questions"]] == ["safety"]
