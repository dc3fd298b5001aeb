"""A policy's model card: what it learned from, without naming annotators, in Markdown that no name can break."""

from __future__ import annotations

import pytest
import yaml
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import Role
from apps.policies.models import Policy
from apps.training import lineage
from apps.training.model_card import model_card
from apps.training.models import Run
from apps.trajectories.models import RolloutBatch
from tests import factories
from tests.training.test_lineage import Family, family, trained

__all__ = ["family"]  # a fixture
pytestmark = pytest.mark.django_db


def cells(card: str, first: str) -> list[str]:
    """The cells of the table row whose first cell ends with these words."""
    lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in card.splitlines() if line[:1] == "|"]
    return next(line for line in lines if line[0].endswith(first))


def head(card: str) -> dict[str, object]:
    metadata: dict[str, object] = yaml.safe_load(card.split("---")[1])
    return metadata


def test_it_leads_through_rewards_to_the_number_of_judgments(family: Family) -> None:
    Run.objects.filter(result=family.tuned).update(version=None)
    card = model_card(Policy.objects.get(pk=family.tuned.pk))
    assert head(card) == {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "base_model": "example/base",
        "tags": ["agent", "retrace", "grpo"],
    }
    assert cells(card, "people's taste")[1:] == [
        "reward: people, weight 0.5",
        "Reward model",
        f"{family.version}: 1 preference training rows, `{family.version.content_hash[:12]}`",
        "1",
    ]
    assert cells(card, "tuned")[1:4] == ["this policy", "GRPO", "its own rollouts"]
    assert cells(card, "base")[1:4] == ["base", "registered", "example/base"]
    assert cells(card, "Learning rate")[1].startswith("`")
    annotator = family.judgment.assignment.annotator
    assert annotator.label not in card


def test_it_says_that_it_does_not_list_all_origins(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "are listed." not in model_card(family.tuned)
    monkeypatch.setattr(lineage, "MAX_LINES", 2)
    assert "\n\nOnly the first 2 are listed.\n\n## Held-out success" in model_card(family.tuned)


def test_its_base_model_is_not_that_of_its_reward(family: Family) -> None:
    location = "example/small"
    small = factories.policy(of=family.member.workspace, name="small", kind=Policy.Kind.MODEL, location=location)
    reward_model = trained("small taste", small, kind=Policy.Kind.REWARD_MODEL, algorithm="reward_model")
    assert head(model_card(trained("tuned too", family.base, rewards=reward_model)))["base_model"] == "example/base"
    assert head(model_card(reward_model))["base_model"] == location


@pytest.mark.parametrize(
    ("kind", "pipeline"),
    [("reward_model", "text-classification"), ("process_model", "token-classification"), ("scripted", None)],
)
def test_it_says_of_weights_alone_how_to_load_them(family: Family, kind: str, pipeline: str | None) -> None:
    policy = factories.policy(of=family.member.workspace, name="other", kind=kind, location="careful")
    metadata = head(model_card(policy))
    assert metadata.get("pipeline_tag") == pipeline
    assert ("library_name" in metadata, "base_model" in metadata) == (bool(pipeline), bool(pipeline))


def test_a_setting_that_was_changed_on_resume_is_told_with_its_step(family: Family) -> None:
    run = family.made(family.tuned)
    details = {"setting": "optimizer.learning_rate", "from": 1e-4, "to": 1e-5, "step": 50}
    run.events.create(kind="changed", text="Ada changed it.", details=details)
    card = model_card(Policy.objects.get(pk=family.tuned.pk))
    assert "\n- From step 50 on, `optimizer.learning_rate` was 1e-05 instead of 0.0001.\n" in card
    assert "Ada" not in card


def test_success_is_told_level_by_level(family: Family) -> None:
    batch = RolloutBatch.objects.create(workspace=family.member.workspace, policy=family.tuned)
    for level, success in (("L1", True), ("L1", True), ("L2", False)):
        task = factories.task(of=family.member.workspace, environment="office", difficulty=level, held_out=True)
        factories.trajectory(of=task, policy=family.tuned, success=success, rollout_batch=batch)
    card = model_card(family.tuned)
    assert "| office | L1 | 2 | 100.0% (" in card
    assert "| office | L2 | 1 | 0.0% (" in card
    assert "No held-out rollouts" in model_card(family.base)


def test_no_name_breaks_out_of_its_line(family: Family) -> None:
    name = "a | b\n# Heading\n---\nbase_model: other <script>`"
    hostile = trained(name, family.base, algorithm="grpo")
    card = model_card(hostile)
    assert head(card)["base_model"] == "example/base"
    assert "<script>" not in card
    assert "\n# Heading" not in card
    assert len([line for line in card.splitlines() if line.startswith("# ")]) == 1


def test_settings_of_another_version_are_left_out(family: Family) -> None:
    run = family.made(family.tuned)
    run.config = {"no_such_setting": 1}
    run.save()
    tuned = Policy.objects.get(pk=family.tuned.pk)
    assert "## Settings\n\nNothing." in model_card(tuned)


def test_it_is_for_researchers_of_the_workspace(client: Client, family: Family) -> None:
    page, rest = reverse("training:model_card", args=[family.tuned.pk]), f"/api/v1/policies/{family.tuned.pk}/card"
    client.force_login(family.member.user)
    for address in (page, rest):
        answer = client.get(address)
        assert (answer.status_code, answer["Content-Type"]) == (200, "text/markdown; charset=utf-8")
        assert answer.content.decode() == model_card(family.tuned)
    for outsider in (factories.member(Role.RESEARCHER), factories.member(Role.REVIEWER, of=family.member.workspace)):
        client.force_login(outsider.user)
        assert [client.get(address).status_code for address in (page, rest)] == [404, 404]


def test_what_is_read_takes_the_same_queries_however_long_the_chain(family: Family) -> None:
    def count(policy: Policy) -> int:
        fresh = Policy.objects.select_related("made_by").get(pk=policy.pk)
        with CaptureQueriesContext(connection) as queries:
            model_card(fresh)
        return len(queries)

    last = family.later
    for number in range(5):
        last = trained(f"later {number}", last, rewards=family.reward_model, algorithm="grpo")
    assert count(last) == count(family.later)
