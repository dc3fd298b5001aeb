"""Labeling the steps of a run in a real browser, by keyboard alone."""

import json
from collections.abc import Callable
from threading import Event

import pytest
from playwright.sync_api import Page, Route, expect

from apps.accounts.models import Membership
from apps.annotation.kinds.questions import Alternatives, Question, StepsAsks
from apps.annotation.models import Assignment, Continuation, Correction, Inspection, Queue
from apps.trajectories.models import Trajectory
from tests import factories
from tests.annotation import builders
from tests.browser.pair_desk import all_sent
from tests.live import LiveStack
from tests.workers.served_policies import office_run, policy_on, served_model

pytestmark = pytest.mark.browser
Open = Callable[..., Page]


@pytest.fixture
def queue(annotator: Membership) -> Queue:
    queue = builders.queue_of_trajectories(of=annotator.workspace, items=5, steps=20)
    parameters = {"properties": {"at": {"type": "string"}, "for": {"anyOf": [{"type": "integer"}]}}, "required": ["at"]}
    Trajectory.objects.update(tools=[{"type": "function", "function": {"name": "look", "parameters": parameters}}])
    return queue


@pytest.fixture
def page(open_as: Open, annotator: Membership, queue: Queue) -> Page:
    page = open_as(annotator.user)
    page.goto(f"/desk/{queue.pk}/")
    return ready(page)


def ready(page: Page) -> Page:
    expect(page.locator("[data-walk][data-drafting]")).to_be_visible()
    return page


def shown(page: Page) -> str:
    return page.locator("[data-walk]").get_attribute("data-item") or ""


def press(page: Page, keys: str) -> None:
    for key in keys.split():
        page.keyboard.press(key)


def submit(page: Page) -> None:
    item = shown(page)
    press(page, "Enter")
    page.wait_for_function(
        "old => ![null, undefined, old].includes(document.querySelector('[data-walk]')?.dataset.item)", arg=item
    )
    ready(page)


def inspections() -> list[Inspection]:
    return list(Inspection.objects.valid().order_by("pk"))


def values(inspection: Inspection) -> str:
    return "".join({-1: "-", 0: "0", 1: "+"}[label.value] for label in inspection.labels.order_by("index"))


def test_twenty_steps_take_twenty_keys_and_an_error_fills_the_rest(page: Page):
    press(page, "Enter")
    expect(page.get_by_text("Say how it ended")).to_be_visible()
    press(page, "v Enter")
    expect(page.get_by_text("Label step 1, 2, 3, 4, 5 and 15 more first.")).to_be_visible()
    press(page, " ".join("3323" * 5))
    expect(page.locator("[data-walk-now]")).to_have_text("Step 20 of 20")
    submit(page)

    press(page, "3 j x")  # good; one passed over; the third is wrong
    expect(page.locator("[name=ending][value=found_error]")).to_be_checked()
    press(page, "c")
    page.keyboard.type("1 looks on shelf 2 again")  # digits typed into text don't label
    press(page, "Escape m")
    page.keyboard.type("shelf 2")
    press(page, "Enter")
    expect(page.locator(".walk-spans q")).to_have_text("shelf 2")
    submit(page)

    press(page, "u")
    ready(page)
    expect(page.locator("#row-2 [data-critique]")).to_have_value("1 looks on shelf 2 again")
    press(page, "k")  # the first error was one step earlier
    press(page, "x")
    submit(page)

    press(page, "b")
    submit(page)
    press(page, "n")
    submit(page)
    expect(page.locator("[data-desk-progress]")).to_contain_text("4 by you")
    solved, with_error, bad, gave_up = inspections()
    assert (solved.ending, values(solved)) == ("solved", "++0+" * 5)
    assert (with_error.ending, with_error.first_error, values(with_error)) == ("found_error", 1, "+-" + "-" * 18)
    third = with_error.labels.get(index=2)
    assert (third.critique, third.spans[0]["quote"], third.spans[0]["part"]) == (
        "1 looks on shelf 2 again",
        "shelf 2",
        "call.0",
    )
    assert [bad.ending, gave_up.ending] == ["bad_problem", "give_up"]
    assert Inspection.objects.exclude(retracted_at=None).get().first_error == 2


def test_a_better_action_is_written_into_a_form_from_the_tool(page: Page, console):
    console.expect("409")
    press(page, "j e")
    expect(page.locator("[name='arg.at']")).to_have_value("shelf 1")
    page.locator("[name='arg.at']").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("the door, 3 times")
    press(page, "Tab Control+A")
    page.keyboard.type("cup")
    press(page, "Control+Enter")
    expect(page.locator("[data-better-problem]")).to_contain_text("for: 'cup' isn't JSON")
    press(page, "Control+A")
    page.keyboard.type("7")
    press(page, "Control+Enter")
    expect(page.locator("#row-1 [data-better] pre")).to_contain_text("the door, 3 times")
    expect(page.locator("#row-1 [value='-1']")).to_be_checked()  # a corrected step isn't good
    press(page, "x")
    submit(page)
    press(page, "u")
    expect(page.locator("#row-1 [data-better] pre")).to_contain_text("the door, 3 times")
    submit(page)
    all_sent(page)
    correction = Inspection.objects.valid().get().corrections.get()
    assert (correction.index, correction.origin) == (1, "written")
    [call] = correction.message["tool_calls"]
    assert call["function"] == {"name": "look", "arguments": {"at": "the door, 3 times", "for": 7}}


def test_a_correction_form_that_comes_late_does_not_open_on_the_next_run(page: Page):
    held: list[Route] = []
    page.route("**/better/", lambda route: held.append(route))
    press(page, "b e")
    while not held:
        page.wait_for_timeout(50)
    submit(page)
    held[0].continue_()
    page.wait_for_timeout(500)
    expect(page.locator("#better")).to_be_hidden()


def test_another_tool_keeps_the_message_and_the_reasoning(page: Page):
    press(page, "e")
    page.locator("#better summary").click()
    page.locator("[name=content]").fill("I look first.")
    page.locator("[name=thought]").fill("Nobody has looked yet.")
    page.locator("[data-better-tool]").select_option("")
    expect(page.locator("[name='arg.at']")).to_have_count(0)
    expect(page.locator("[name=content]")).to_have_value("I look first.")
    expect(page.locator("[name=thought]")).to_have_value("Nobody has looked yet.")


def test_a_correction_form_that_was_closed_comes_back_as_it_was_left(page: Page):
    press(page, "e")
    page.locator("[name='arg.at']").fill("the door")
    page.locator("[name='arg.for']").fill("7")
    press(page, "Escape j e")
    expect(page.locator("[name='arg.at']")).to_have_value("shelf 1")
    page.get_by_role("button", name="Go back").click()
    press(page, "k e")
    expect(page.locator("[name='arg.at']")).to_have_value("the door")
    press(page, "Control+Enter")
    expect(page.locator("#row-0 [data-better] pre")).to_contain_text("the door")
    page.get_by_role("button", name="Remove the better action of step 1").click()
    press(page, "e")
    expect(page.locator("[name='arg.at']")).to_have_value("shelf 0")


def test_an_unsaved_correction_holds_an_answer_back_once(page: Page):
    press(page, "e")
    expect(page.locator("[name='arg.at']")).to_be_visible()
    press(page, "Escape j e")  # nothing was written there
    expect(page.locator("[name='arg.at']")).to_have_value("shelf 1")
    page.locator("[name='arg.at']").fill("the door")
    press(page, "Escape j b")
    item = shown(page)
    press(page, "Enter")
    expect(page.get_by_text("Your correction at step 2 isn't saved.")).to_be_visible()
    assert shown(page) == item
    press(page, "e")
    expect(page.locator("[name='arg.at']")).to_have_value("the door")
    press(page, "Escape Enter")  # it may be seen for the last time
    expect(page.get_by_text("Your correction at step 2 isn't saved.")).to_be_visible()
    submit(page)
    all_sent(page)
    assert not Inspection.objects.get().corrections.exists()


def test_a_correction_form_that_was_asked_for_twice_keeps_what_is_written(page: Page):
    held: list[Route] = []
    page.route("**/better/", lambda route: held.append(route))
    press(page, "e e")
    while len(held) < 2:
        page.wait_for_timeout(50)
    held[1].continue_()
    page.locator("[name='arg.at']").fill("the door")
    held[0].continue_()
    page.wait_for_timeout(500)
    expect(page.locator("[name='arg.at']")).to_have_value("the door")


def test_alternatives_of_a_run_that_has_left_are_not_offered(open_as: Open, annotator: Membership):
    asks = StepsAsks(every_step=False, alternatives=Alternatives(factories.policy(of=annotator.workspace).pk))
    queue = builders.queue_of_trajectories(of=annotator.workspace, items=2, asks=asks)
    page = open_as(annotator.user)
    done = {"active": False, "messages": [{"role": "assistant", "content": "look"}], "policy": "one"}
    held: list[Route] = []
    page.route("**/alternatives/", lambda route: held.append(route))
    page.goto(f"/desk/{queue.pk}/")
    ready(page)
    press(page, "a Escape")
    held[0].fulfill(json=done)
    offer = page.get_by_text("The alternatives at step 1 are ready.")
    expect(offer).to_be_visible()
    press(page, "b")
    submit(page)
    expect(offer).to_have_count(0, timeout=1000)  # sooner than it would go by itself


def test_a_long_run_with_questions_at_every_step_is_submitted_at_once(open_as: Open, annotator: Membership):
    asks = StepsAsks(every_step=False, questions=(Question("ok", "Was it safe?", required=False, per="step"),))
    queue = builders.queue_of_trajectories(of=annotator.workspace, steps=600, asks=asks)
    page = open_as(annotator.user)
    page.goto(f"/desk/{queue.pk}/")
    ready(page)
    press(page, "j j v")
    milliseconds = page.evaluate("""() => {
        const start = performance.now();
        document.querySelector("[data-item]").dispatchEvent(new CustomEvent("desk:check", { detail: { problem: "" } }));
        return performance.now() - start;
    }""")
    assert milliseconds < 2000  # tens of seconds if each step were laid out
    expect(page.locator("[data-at-step]")).to_have_text("step 3")


def test_a_run_whose_words_were_marked_does_not_stay_in_memory(page: Page):
    press(page, "m")
    page.keyboard.type("shelf")
    press(page, "Enter 3 b")
    page.evaluate("() => { window.old = new WeakRef(document.querySelector('[data-walk]')) }")
    for _ in range(2):
        submit(page)
        press(page, "b")
    all_sent(page)
    session = page.context.new_cdp_session(page)
    for _ in range(20):
        session.send("HeapProfiler.collectGarbage")
        if page.evaluate("() => window.old.deref() === undefined"):
            return
        page.wait_for_timeout(250)
    raise AssertionError("The run is still in memory.")


def test_a_run_that_was_set_aside_by_an_undo_keeps_its_labels_when_its_critique_is_edited(page: Page):
    press(page, "b")
    submit(page)
    press(page, "1 k c")
    page.keyboard.type("wrong")
    press(page, "Escape u")
    expect(page.locator("[name=ending][value=bad_problem]")).to_be_checked()
    submit(page)
    press(page, "j 3 3")
    page.locator("[data-critique]").focus()
    page.keyboard.type(" shelf")
    press(page, "Escape v")
    kept = json.loads(page.locator("[name=labels]").input_value())
    assert [(label["value"], label["critique"]) for label in kept] == [(-1, "wrong shelf"), (1, ""), (1, "")]


def test_a_run_without_steps_is_ended_and_nothing_in_it_can_be_labeled(open_as: Open, annotator: Membership):
    queue = builders.queue_of_trajectories(of=annotator.workspace, items=1, steps=0)
    page = open_as(annotator.user)
    page.goto(f"/desk/{queue.pk}/")
    expect(ready(page).get_by_text("This trajectory has no steps")).to_be_visible()
    press(page, "3 x c m j k")
    expect(page.locator("[value=found_error]")).to_be_disabled()
    press(page, "b Enter")
    expect(page.locator("[data-desk-end]")).to_be_visible()
    all_sent(page)
    assert [(inspection.ending, inspection.first_error) for inspection in inspections()] == [("bad_problem", None)]


def test_labels_survive_a_closed_tab_and_a_phone_can_set_them(page: Page, open_as: Open, annotator, queue):
    press(page, "3 1")
    held = Assignment.objects.get(pk=shown(page))
    while len(held.draft.get("labels", [])) < 2:
        page.wait_for_timeout(50)
        held.refresh_from_db()
    assert held.draft["labels"][1]["value"] == -1
    page.close()
    phone = open_as(annotator.user, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    phone.goto(f"/desk/{queue.pk}/")
    ready(phone)
    expect(phone.locator("[data-walk-now]")).to_have_text("Step 3 of 20")
    expect(phone.locator("#row-1 [value='-1']")).to_be_checked()
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    phone.get_by_role("button", name="First error").tap()
    item = shown(phone)
    phone.locator("[data-submit]").tap()
    phone.wait_for_function("old => document.querySelector('[data-walk]')?.dataset.item !== old", arg=item)
    expect(phone.locator("[data-desk-progress]")).to_contain_text("1 by you")
    assert values(inspections()[0]) == "+-" + "-" * 18


def test_an_alternative_is_chosen_and_run_to_its_end(open_as: Open, annotator: Membership, live_stack: LiveStack):
    with served_model() as server:
        asks = StepsAsks(every_step=False, alternatives=Alternatives(policy_on(server, of=annotator.workspace).pk))
        run = office_run(of=annotator.workspace)
        queue = builders.queue_of_trajectories(of=annotator.workspace, items=1, trajectories=[run], asks=asks)
        page = open_as(annotator.user)
        page.goto(f"/desk/{queue.pk}/")
        ready(page)
        press(page, "a")
        expect(page.locator(".alternative")).to_have_count(2, timeout=60_000)
        chosen = page.locator(".alternative pre").nth(1).inner_text()
        press(page, "2")
        expect(page.locator("#row-0 [data-better] pre")).to_have_text(chosen)
        press(page, "f")
        expect(page.locator("[data-ending]")).to_contain_text("It didn't do what was asked.", timeout=60_000)
        press(page, "x Enter")
        expect(page.get_by_role("heading", name="All done")).to_be_visible()
    correction = Correction.objects.get()
    assert (correction.origin, correction.message["content"]) == ("sampled", chosen)
    assert (correction.branch.parent_id, correction.branch.branch_step) == (run.pk, 0)


def test_a_dialog_that_is_left_has_its_answer_when_one_comes_back(
    open_as: Open, annotator: Membership, live_stack: LiveStack
):
    with served_model() as server:
        reply, may_answer = server.reply, Event()

        def answer_later(body: dict[str, object]) -> tuple[int, dict[str, object]]:
            may_answer.wait(60)
            return reply(body)

        server.reply = answer_later
        asks = StepsAsks(every_step=False, alternatives=Alternatives(policy_on(server, of=annotator.workspace).pk))
        run = office_run(of=annotator.workspace)
        queue = builders.queue_of_trajectories(of=annotator.workspace, items=1, trajectories=[run], asks=asks)
        page = open_as(annotator.user)
        page.goto(f"/desk/{queue.pk}/")
        ready(page)
        press(page, "a")
        expect(page.locator("[data-alternatives-leave]")).to_be_visible()
        expect(page.locator("[data-alternatives-words]")).to_contain_text("The policy is working", timeout=60_000)
        with page.expect_response("**/draft/"):
            press(page, "Escape 3")  # labeling goes on
        expect(page.locator("#row-0 [value='1']")).to_be_checked()
        page.goto("/")
        page.goto(f"/desk/{queue.pk}/")
        ready(page)
        may_answer.set()
        expect(page.get_by_text("The alternatives at step 1 are ready.")).to_be_visible(timeout=60_000)
        page.get_by_role("button", name="Open").click()
        expect(page.locator(".alternative").first).to_be_visible()
        press(page, "1")
        press(page, "k f")
        expect(page.locator("[data-ending]")).to_contain_text("It didn't do what was asked.", timeout=60_000)
        page.wait_for_timeout(1200)
        page.reload()
        ready(page)
        expect(page.locator("[data-ending]")).to_contain_text("It didn't do what was asked.")
        assert Continuation.objects.count() == 2  # no request was sent twice
