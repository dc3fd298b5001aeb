"""Finding trajectories by facets in a real browser."""

import pytest
from playwright.sync_api import expect

from apps.accounts.models import Membership, Role
from tests import factories
from tests.live import LiveStack

pytestmark = pytest.mark.browser


@pytest.fixture
def researcher(live_stack: LiveStack) -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.mark.parametrize("viewport", [None, {"width": 390, "height": 844}], ids=["desktop", "phone"])
def test_a_facet_narrows_the_list_and_its_chip_widens_it(open_as, researcher, viewport):
    for environment, tags in (("airline", ["kept"]), ("airline", []), ("shop", [])):
        task = factories.task(of=researcher.workspace, environment=environment)
        factories.trajectory(of=task, tags=tags)
    page = open_as(researcher.user, **({"viewport": viewport} if viewport else {}))
    page.goto("/trajectories/?sort=longest")
    page.get_by_text("Facets", exact=True).click()
    environments = page.get_by_role("region", name="Environment")
    expect(environments.get_by_role("link")).to_have_count(2)
    environments.get_by_role("link", name="airline 2").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_label("Tag", exact=True).fill("kept")
    expect(page.locator("tbody tr")).to_have_count(1)
    chips = page.get_by_role("list", name="Active filters")
    expect(chips.get_by_role("listitem")).to_have_count(2)
    chips.get_by_role("link", name="Remove the filter Environment: airline").click()
    expect(chips.get_by_role("listitem")).to_have_count(1)
    page.wait_for_url(lambda url: "tag=kept" in url and "environment" not in url)
    page.get_by_label("Environment", exact=True).select_option("shop")
    expect(chips.get_by_role("listitem")).to_have_count(2)
    page.get_by_label("Minimum number of steps").fill("1")
    page.keyboard.press("Tab")
    expect(chips.get_by_role("listitem")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_on_a_phone_what_can_be_done_with_all_matches_begins_where_their_count_begins(open_as, researcher):
    factories.trajectory(of=factories.task(of=researcher.workspace))
    page = open_as(researcher.user, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.goto("/trajectories/")
    lines = page.evaluate("""() => {
        const words = document.createRange();
        const lines = {};
        for (const each of document.querySelectorAll(".found-words > *, .sort-menu > summary")) {
            words.selectNodeContents(each);
            const { left, top } = words.getBoundingClientRect();
            lines[Math.round(top / 20)] = Math.min(left, lines[Math.round(top / 20)] ?? left);
        }
        return Object.values(lines);
    }""")
    assert len(lines) >= 2
    assert max(lines) - min(lines) < 1


def test_back_from_a_trajectory_leads_to_the_whole_list_as_it_was_searched(open_as, researcher):
    task = factories.task(of=researcher.workspace, key="refund-7", instruction="Refund the order.")
    factories.trajectory(of=task)
    page = open_as(researcher.user)
    page.goto("/trajectories/")
    page.get_by_label("Words of the task, or an id").fill("refund")
    page.wait_for_url(lambda url: "q=refund" in url)
    page.get_by_role("link", name="refund-7").click()
    page.wait_for_url(lambda url: "/trajectories/0" in url)
    page.go_back()
    page.wait_for_url(lambda url: "q=refund" in url)
    expect(page.get_by_role("heading", name="Trajectories", level=1)).to_be_visible()
