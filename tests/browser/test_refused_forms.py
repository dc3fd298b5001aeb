"""After a refused form, the first invalid field has the focus."""

import pytest
from playwright.sync_api import expect

from apps.arena.models import Experiment
from tests import factories

pytestmark = pytest.mark.browser


@pytest.fixture
def researcher(transactional_db, live_stack):
    return factories.member()


def test_a_refused_page_leads_to_its_first_wrong_field(open_as, researcher, console):
    console.expect("422")
    page = open_as(researcher.user, viewport={"width": 390, "height": 400})
    page.goto("/policies/new/")
    page.get_by_label("Name").fill(" ")  # the browser accepts it as a name
    page.get_by_role("button", name="Register").press("Enter")
    expect(page.get_by_text("This field is required.")).to_have_count(2)  # the model is missing, too
    expect(page.locator("#id_name_error")).to_be_in_viewport()
    expect(page.get_by_label("Name")).to_be_focused()


def test_a_refused_dialog_is_open_again_over_its_page(open_as, researcher, console):
    console.expect("422")
    a, b = factories.policy(of=researcher.workspace), factories.policy(of=researcher.workspace)
    experiment = Experiment.objects.create(
        workspace=researcher.workspace,
        name="Which one?",
        environment="office",
        policy_a=a,
        policy_b=b,
        queue=factories.queue(of=researcher.workspace),
        state=Experiment.State.LABELING,
        plan={"tasks": 4, "samples": 1, "seed": 1, "overlap": 1, "rule": {"min_tasks": 2}},
    )
    page = open_as(researcher.user)
    page.goto(f"/experiments/{experiment.pk}/")
    page.keyboard.press("p")
    expect(page.get_by_label("Policy")).to_be_focused()
    page.get_by_label("Policy").select_option(a.name)
    page.get_by_label("Reason").fill(" ")
    page.get_by_role("dialog").get_by_role("button", name="Promote").click()
    expect(page.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
