"""A researcher publishes a trained policy, which is served once the canary passes, promotes it, and rolls back.

Workers and canary are real; vLLM is replaced by a small server that answers from the same weights.
"""

import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from playwright.sync_api import Page, expect

from apps.arena.models import Experiment
from apps.policies.models import Policy, Publication
from tests import factories
from tests.arena.test_pages import make_experiment
from tests.workers.trained_policies import train_two
from tests.workers.vllm_like import VllmLike

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_two(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def server(trained: Path) -> Iterator[VllmLike]:
    with VllmLike(trained / "base") as running:
        yield running


@pytest.fixture
def researcher(live_stack):
    return factories.member()


@pytest.fixture
def policies(trained: Path, researcher) -> Iterator[list[Policy]]:
    """Two runs' policies, in the workers' RUNS_DIR."""
    runs = Path(settings.RUNS_DIR)
    made = []
    for name in ("one", "two"):
        report = json.loads((trained / name / "report.json").read_text())
        policy = factories.trained_policy(of=researcher.workspace, name=name, report=report)
        shutil.copytree(trained / name, runs / str(policy.made_by.pk))
        made.append(policy)
    yield made
    for policy in made:
        shutil.rmtree(runs / str(policy.made_by.pk))


def test_a_policy_is_published_proven_promoted_and_rolled_back(open_as, researcher, policies, server):
    one, two = policies
    page = open_as(researcher.user)

    page.goto(f"/policies/{one.pk}/")
    page.keyboard.press("b")
    page.get_by_label("Name").fill("office")
    page.get_by_label("Address").fill(server.url)
    page.keyboard.press("Control+Enter")
    expect(row_of(page, 1)).to_contain_text("Live")  # it appears without a reload
    expect(row_of(page, 1)).to_contain_text("nats from the policy")

    publish(page, two)  # the server is registered by now
    expect(row_of(page, 1)).to_contain_text("Live")
    assert live_name(two) in server.adapters
    page.goto(f"/policies/{one.pk}/")
    expect(row_of(page, 1)).to_contain_text("Replaced")

    server.ignores_adapters = True  # and would therefore serve the base under the policy's name
    publish(page, one)
    expect(row_of(page, 1)).to_contain_text("Refused by the canary")
    expect(row_of(page, 1)).to_contain_text("The base model answers under this name")
    server.ignores_adapters = False

    page.goto(f"/policies/{two.pk}/")
    expect(row_of(page, 1)).to_contain_text("Live")  # throughout
    row_of(page, 1).get_by_role("button", name="Roll back").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    page.wait_for_url(f"**/policies/{one.pk}/")  # the target of a rollback
    expect(row_of(page, 1)).to_contain_text("rolled back to")
    expect(row_of(page, 1)).to_contain_text("Live")
    assert live_name(one) in server.adapters
    expect(row_of(page, 1)).to_contain_text(f"Name on the server: {live_name(one)}")

    promote_and_roll_back(page, one, two)


def test_a_policy_leaves_as_a_folder(open_as, researcher, policies, tmp_path):
    page = open_as(researcher.user)
    page.goto(f"/policies/{policies[0].pk}/publish/")
    page.get_by_label("Folder").check()
    expect(page.get_by_label("Address")).to_be_hidden()
    page.get_by_label("Name").fill("office")
    page.keyboard.press("Control+Enter")
    expect(row_of(page, 1)).to_contain_text("identical files")
    with page.expect_download() as download:
        row_of(page, 1).get_by_role("link", name="Download").click()
    download.value.save_as(tmp_path / "policy.tar")
    with tarfile.open(tmp_path / "policy.tar") as archive:
        names = archive.getnames()
    assert any(name.endswith("model/model.safetensors") for name in names)
    assert any(name.endswith("adapter/adapter_model.safetensors") for name in names)


def live_name(policy: Policy) -> str:
    """The served name of the live policy."""
    live = Publication.objects.live().get(name="office")
    assert live.policy == policy
    return live.served_name


def row_of(page: Page, number: int):
    """A row of the policy's publications, the newest first."""
    return page.locator("#publications tbody tr").nth(number - 1)


def publish(page: Page, policy: Policy) -> None:
    page.goto(f"/policies/{policy.pk}/publish/")
    page.get_by_label("Name").fill("office")
    page.get_by_role("button", name="Publish").click()


def promote_and_roll_back(page: Page, one: Policy, two: Policy) -> None:
    """Promotes from a decided experiment: first one policy, then the other, then rolls back."""
    fields = {"policy_a": one, "policy_b": two, "state": Experiment.State.STOPPED}
    page.goto(f"/experiments/{make_experiment(one.workspace, **fields).pk}/")
    champion = page.locator("aside section", has_text="Champion of office")
    for policy in (one, two):
        page.keyboard.press("p")
        page.select_option("#promote select[name=policy]", label=policy.name)
        page.fill("#promote textarea[name=reason]", "It is better.")
        page.locator("#promote button.primary").click()
        expect(champion.get_by_role("link")).to_have_text(policy.name)
    champion.get_by_role("button", name="Roll back").click()
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    expect(champion.get_by_role("link")).to_have_text(one.name)
    page.goto(f"/policies/{one.pk}/")
    expect(page.locator(".badge.accent")).to_contain_text("champion of office")
