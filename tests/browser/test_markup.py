"""User text can't execute in others' browsers: not where it's displayed, and not even if it were injected as markup."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from apps.accounts.models import Membership, Role
from apps.annotation.kinds.questions import Question, RatingAsks
from apps.annotation.models import Queue
from tests import factories
from tests.annotation import builders
from tests.live import LiveStack

pytestmark = pytest.mark.browser


@pytest.fixture
def owner(live_stack: LiveStack) -> Membership:
    return factories.member(Role.OWNER)


@pytest.fixture
def researcher(owner: Membership) -> Membership:
    return factories.member(Role.RESEARCHER, of=owner.workspace, name="Ben")


def changes(page: Page) -> list[str]:
    """URLs of the unsafe requests that `page` sends from now on."""
    sent: list[str] = []
    page.on("request", lambda request: request.method == "GET" or sent.append(request.url))
    return sent


def role_of(member: Membership) -> Role:
    member.refresh_from_db()
    return Role(member.role)


def test_a_question_whose_name_is_markup_changes_no_role_when_the_owner_reads_it(open_as, owner, researcher):
    address = f"/settings/members/{researcher.pk}/role/"
    attack = f'<i hx-post={address} hx-trigger=load hx-vals=\'{{"role":"4"}}\' hx-swap=none>polite</i>'
    queue = builders.queue_of_trajectories(
        Queue.Kind.RATING, of=owner.workspace, asks=RatingAsks((Question(attack, attack),)), name=attack
    )
    page = open_as(owner.user)
    sent = changes(page)
    page.goto(f"/queues/{queue.pk}/settings/")
    expect(page.get_by_label("Question", exact=True)).to_have_value(attack)
    page.wait_for_load_state("networkidle")
    assert page.locator("i[hx-post]").count() == 0
    assert {urlsplit(url).path for url in sent} == {"/queues/questions/preview/"}
    assert role_of(researcher) == Role.RESEARCHER


def becoming_markup(page: Page, markup: str, *, before: str = "<h1>") -> None:
    """Insert `markup` into every page as if a template hadn't escaped it."""

    def answer(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, body=response.text().replace(before, f"{markup}{before}", 1))

    page.route("**/settings/members/", answer)


ATTACKS = {
    "on its own": "<i data-test hx-post='{address}' hx-trigger=load hx-vals='{{\"role\":\"4\"}}'>x</i>",
    "with the prefix": "<i data-test data-hx-post='{address}' data-hx-trigger=load data-hx-vals='{{\"role\":\"4\"}}'>x</i>",
    "with a field of another form": "<i data-test hx-post='{address}' hx-trigger=load hx-include='body'>x</i>",
    "with a nonce of its own": "<meta name=nonce data-nonce=n1><i data-test data-nonce=n1 hx-post='{address}' hx-trigger=load>x</i>",
    "with elements named like methods": "<img name=querySelector><img name=body><form name=head><input name=getAttribute></form>"
    "<i data-test hx-post='{address}' hx-trigger=load>x</i>",
    "with a boosted form": "<div hx-boost=true><form data-test method=post action='{address}'><input name=role value=4></form></div>",
    "with a form of an upload": "<form data-test data-upload method=post action='{address}'><input name=role value=4><div data-drop>"
    "<input type=file></div><span data-chosen></span><div data-upload-progress><progress></progress><p class=progress-words>"
    "<span></span><span></span></p></div><button>x</button></form>",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_markup_that_a_template_let_through_sends_nothing(open_as, owner, researcher, console, attack):
    console.expect("querySelector|not from a template|is not a function")
    page = open_as(owner.user)
    becoming_markup(page, attack.format(address=f"/settings/members/{researcher.pk}/role/"))
    sent = changes(page)
    page.goto("/settings/members/")
    page.wait_for_load_state("networkidle")
    element = page.locator("[data-test]")
    assert element.count() == 1  # it's on the page, and does nothing
    if element.evaluate("element => element instanceof HTMLFormElement"):
        element.evaluate("form => form.requestSubmit()")
        page.wait_for_load_state("networkidle")
    assert sent == []
    assert role_of(researcher) == Role.RESEARCHER


@pytest.mark.parametrize(
    "attack",
    [
        "<form method=post action='{address}'><input type=hidden name=role value=4>",  # swallows the opening tag of the form after it
        "<button form=first formaction='{address}' name=role value=4 data-test>Click here</button>",
    ],
    ids=["a form left open", "a button for a form of ours"],
)
def test_a_form_of_ours_cannot_be_led_elsewhere(open_as, owner, researcher, attack):
    page = open_as(owner.user)
    address = f"/settings/members/{researcher.pk}/role/"
    becoming_markup(page, attack.format(address=address))
    sent = changes(page)
    page.goto("/settings/members/")
    page.evaluate("document.querySelector('#main form[method=post].line-form, #main form[action]').id ||= 'first'")
    page.get_by_label("E-mail address").fill("ben@example.org")
    (page.locator("[data-test]") if "data-test" in attack else page.get_by_role("button", name="Create link")).click()
    expect(page.get_by_text("Nothing was sent")).to_be_visible()
    assert sent == []
    assert role_of(researcher) == Role.RESEARCHER


def test_what_is_around_our_elements_lends_them_nothing(open_as, owner, researcher):
    """One of our elements inside injected markup with htmx attributes doesn't act at all, rather than inheriting them."""
    page = open_as(owner.user)
    becoming_markup(page, "<div hx-vals='{\"role\":\"4\"}' hx-target='body'>", before="<main")
    sent = changes(page)
    page.goto("/settings/members/")
    page.wait_for_load_state("networkidle")
    page.get_by_label("Role of Ben").evaluate(
        "select => select.form.dispatchEvent(new Event('submit', {bubbles: true, cancelable: true}))"
    )
    page.wait_for_load_state("networkidle")
    assert sent == []


def test_forms_of_ours_work(open_as, owner, researcher):
    page = open_as(owner.user)
    page.goto("/settings/members/")
    page.get_by_label("Role of Ben").select_option("Reviewer")
    expect(page.get_by_text("Ben is now Reviewer.")).to_be_visible()
    page.get_by_label("Role of Ben").select_option("Annotator")
    expect(page.get_by_text("Ben is now Annotator.")).to_be_visible()
    assert role_of(researcher) == Role.ANNOTATOR
