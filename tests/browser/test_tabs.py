"""Pages that share tabs, in a real browser."""

import pytest

from apps.accounts.models import Role
from tests import factories

pytestmark = pytest.mark.browser

PLACES = """[...document.querySelectorAll("h1, .page-tabs a")].map((element) => {
    const box = element.getBoundingClientRect();
    return element.matches("h1") ? [box.left, box.top] : [element.innerText, box.left, box.top];
})"""


@pytest.mark.parametrize(
    "first",
    ["/trajectories/", "/policies/", "/rollouts/new/", "/experiments/new/", "/settings/members/", "task", "queue"],
)
def test_headings_and_tabs_stay_where_they_are_from_tab_to_tab(open_as, live_stack, first):
    owner = factories.member(Role.OWNER)
    queue = factories.queue(of=owner.workspace)
    task = factories.task(of=owner.workspace)
    for _ in range(2):
        factories.trajectory(of=task)
    page = open_as(owner.user, viewport={"width": 1920, "height": 900})
    page.goto({"task": f"/tasks/{task.pk}/", "queue": f"/queues/{queue.pk}/"}.get(first, first))
    tabs = page.eval_on_selector_all(".page-tabs a", "(links) => links.map((link) => link.getAttribute('href'))")
    assert len(tabs) > 1
    places = page.evaluate(PLACES)
    for tab in tabs:
        page.goto(tab)
        assert page.evaluate(PLACES) == places, tab
