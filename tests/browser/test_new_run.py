"""The form of a new training run while its settings are loading: no input is lost, and the current values are validated."""

from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Page, Request, Route, expect

from apps.accounts.models import Role
from apps.policies.models import Policy
from tests import factories

pytestmark = pytest.mark.browser
SLOW_MILLISECONDS = 1500


@pytest.fixture
def form(transactional_db, open_as) -> Page:
    """The form of a GRPO run from a small model, on a network where loading other settings takes a while."""
    member = factories.member(Role.RESEARCHER)
    settings = {"parameters": 700_000}
    base = factories.policy(of=member.workspace, kind=Policy.Kind.MODEL, location="example/base", settings=settings)
    page: Page = open_as(member.user)
    page.goto(f"/runs/new/?algorithm=grpo&base={base.pk}")

    def late(route: Route) -> None:
        page.wait_for_timeout(SLOW_MILLISECONDS)
        route.continue_()

    page.route("**/runs/new/settings/", late)
    return page


def checks_of(page: Page) -> list[dict[str, list[str]]]:
    """Form data of each validation request from now on."""
    sent: list[dict[str, list[str]]] = []

    def note(request: Request) -> None:
        if request.url.endswith("/runs/new/check/"):
            sent.append(parse_qs(request.post_data or ""))

    page.on("request", note)
    return sent


def test_what_is_typed_after_another_preset_stays_and_is_checked(form: Page):
    checks = checks_of(form)
    form.fill("input[name=samples]", "4")
    form.locator("input[name=preset][value=quick]").check(force=True)
    form.fill("input[name=optimizer-batch_size]", "12")  # waits until the preset's settings are there
    expect(form.locator("input[name=optimizer-max_steps]")).to_have_attribute("placeholder", "20")
    expect(form.locator("input[name=samples]")).to_have_value("4")
    expect(form.locator("input[name=optimizer-batch_size]")).to_have_value("12")
    with form.expect_request("**/runs/new/check/"):
        form.locator("input[name=optimizer-batch_size]").blur()
    last = checks[-1]
    assert (last["preset"], last["samples"], last["optimizer-batch_size"]) == (["quick"], ["4"], ["12"])


def test_another_algorithm_is_checked_once_its_settings_are_there(form: Page):
    checks = checks_of(form)
    form.locator("input[name=algorithm][value=rloo]").check(force=True)
    with form.expect_request(lambda request: "normalize=" in (request.post_data or "")):
        expect(form.locator("select[name=normalize]")).to_be_enabled()
    assert checks[-1]["algorithm"] == ["rloo"]


def test_a_preset_that_is_chosen_just_as_settings_arrive_is_shown(form: Page):
    form.evaluate(
        """() => document.addEventListener("htmx:afterSwap", ({ detail }) => {
          if (detail.target.id === "settings") document.querySelector("[name=preset][value=quick]").click();
        })"""
    )
    form.locator("input[name=algorithm][value=rloo]").check(force=True)
    expect(form.locator("input[name=optimizer-max_steps]")).to_have_attribute("placeholder", "20")


def test_a_base_from_the_hub_brings_the_settings_of_its_size(form: Page):
    batch_size = form.locator("input[name=optimizer-batch_size]")
    expect(batch_size).to_have_attribute("placeholder", "16")  # of small models
    form.fill("input[name=hub_base]", "example/large")
    form.locator("input[name=hub_base]").blur()
    expect(batch_size).to_have_attribute("placeholder", "4")
