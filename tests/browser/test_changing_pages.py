"""Open pages update when other people or workers change something, including the available actions."""

import pytest
from django.utils.timezone import now
from playwright.sync_api import expect

from apps.accounts.models import Role
from apps.arena.lifecycle import advance
from apps.arena.models import Experiment
from apps.datasets.models import Version
from apps.gateway.splits.routing import open_split_session
from tests import factories
from tests.annotation import builders

pytestmark = pytest.mark.browser


def test_a_queue_that_is_judged_elsewhere_offers_to_freeze_without_a_reload(open_as, live_stack):
    researcher = factories.member(Role.RESEARCHER)
    queue = builders.queue(of=researcher.workspace, items=1, overlap=1)
    page = open_as(researcher.user)
    page.goto(f"/queues/{queue.pk}/")
    expect(page.get_by_role("link", name="Label")).to_be_visible()
    expect(page.get_by_role("link", name="Freeze")).to_have_count(0)
    page.evaluate("window.stayed = true")
    builders.judge(queue, builders.rule(of=researcher.workspace), 2)
    expect(page.get_by_role("link", name="Freeze")).to_be_visible()
    assert page.evaluate("window.stayed")


def test_a_version_says_that_it_is_frozen_without_a_reload(open_as, live_stack):
    researcher = factories.member(Role.RESEARCHER)
    version = factories.dataset_version(of=researcher.workspace, state="freezing", frozen_at=None)
    page = open_as(researcher.user)
    page.goto(f"/datasets/{version.dataset_id}/")
    expect(page.get_by_text("Freezing")).to_be_visible()
    Version.objects.update(state="frozen", frozen_at=now())
    expect(page.get_by_text("Frozen", exact=True)).to_be_visible()


def test_a_traffic_split_counts_new_sessions_without_a_reload(open_as, live_stack):
    researcher = factories.member(Role.RESEARCHER)
    split = factories.traffic_split(of=researcher.workspace)
    page = open_as(researcher.user)
    page.goto(f"/traffic-splits/{split.pk}/")
    sessions = page.locator("#split-figures td[data-label=Sessions]")
    expect(sessions).to_have_text(["0", "0"])
    open_split_session(split=split, by=None, unit="somebody")
    expect(sessions.filter(has_text="1")).to_have_count(1)


@pytest.fixture
def experiment(transactional_db):
    """An experiment with two pairs, whose stopping rule requires few judgments."""
    researcher = factories.member(Role.RESEARCHER)
    queue = builders.queue(of=researcher.workspace, items=2, overlap=1)
    return Experiment.objects.create(
        workspace=researcher.workspace,
        name="Which one?",
        environment="office",
        policy_a=factories.policy(of=researcher.workspace),
        policy_b=factories.policy(of=researcher.workspace),
        queue=queue,
        state=Experiment.State.LABELING,
        plan={"tasks": 2, "samples": 1, "seed": 1, "overlap": 1, "rule": {"min_tasks": 2, "alpha": 0.95}},
        created_by=researcher.user,
    )


def decide(experiment):
    """Judge B better and let the stopping rule end the experiment."""
    for annotator in [builders.rule(of=experiment.workspace)] * 2:
        builders.judge(experiment.queue, annotator, -2)
    advance(experiment)


def test_the_dialog_that_promotes_learns_who_won_without_a_reload(open_as, live_stack, experiment):
    page = open_as(experiment.created_by)
    page.goto(f"/experiments/{experiment.pk}/")
    chosen = page.locator("#promote select[name=policy] option:checked")
    expect(chosen).to_have_text("Choose one of the two")
    decide(experiment)
    expect(page.get_by_role("heading", name=f"{experiment.policy_b} is better")).to_be_visible()
    page.keyboard.press("p")
    expect(chosen).to_have_text(experiment.policy_b.name)
    expect(page.locator("#promote")).not_to_contain_text("don't show a winner")


def test_a_dialog_that_is_open_keeps_what_was_written_in_it(open_as, live_stack, experiment):
    page = open_as(experiment.created_by)
    page.goto(f"/experiments/{experiment.pk}/")
    page.keyboard.press("p")
    page.get_by_label("Policy").select_option(experiment.policy_a.name)
    page.get_by_label("Reason").fill("It is the cheaper one.")
    decide(experiment)
    expect(page.locator("#standing h2").first).to_have_text(f"{experiment.policy_b} is better")
    expect(page.get_by_label("Reason")).to_have_value("It is the cheaper one.")
    expect(page.get_by_label("Policy").locator("option:checked")).to_have_text(experiment.policy_a.name)
