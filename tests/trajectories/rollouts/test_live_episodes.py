"""An episode in progress: the content of its pages, who may see them, and where they redirect when it ends."""

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django.asserts import assertContains, assertRedirects

from apps.accounts.models import Membership, Role
from apps.trajectories.models import RolloutBatch
from apps.trajectories.rollouts import live_episodes
from tests import factories

pytestmark = pytest.mark.django_db
NAME = "e" * 24


def record(steps: int, *, long: str = "") -> bytes:
    """An unfinished record as the trainer writes it."""

    def step(i: int) -> dict[str, Any]:
        call = {"id": f"c{i}", "type": "function", "function": {"name": "look", "arguments": {"at": f"shelf {i}"}}}
        context = [{"role": "tool", "tool_call_id": f"c{i - 1}", "content": f"saw {i - 1}{long}"}]
        return {"context": context if i else [], "message": {"role": "assistant", "tool_calls": [call]}, "reward": 0.0}

    closing = [{"role": "tool", "tool_call_id": f"c{steps - 1}", "content": f"saw {steps - 1}{long}"}]
    fields = {"format": "retrace/1", "id": "rule:lamp#0", "task": {"key": "lamp", "instruction": "Find the lamp."}}
    return json.dumps({**fields, "steps": [step(i) for i in range(steps)], "closing": closing}).encode()


@pytest.fixture
def researcher() -> Membership:
    return factories.member(Role.RESEARCHER)


@pytest.fixture
def batch(researcher: Membership) -> RolloutBatch:
    return RolloutBatch.objects.create(
        workspace=researcher.workspace,
        policy=factories.policy(of=researcher.workspace),
        environment="office",
        state="running",
        total=1,
    )


def client_of(member: Membership) -> Client:
    client = Client()
    client.force_login(member.user)
    return client


def address(name: str, batch: RolloutBatch, *more: int) -> str:
    return reverse(f"trajectories:{name}", args=[batch.pk, NAME, *more])


def test_the_page_has_the_steps_so_far_and_answers_those_that_came(researcher: Membership, batch: RolloutBatch) -> None:
    client = client_of(researcher)
    live_episodes.note(batch.pk, NAME, record(2))
    page = client.get(address("episode", batch))
    assertContains(page, "shelf 1")
    assertContains(page, "saw 1")
    live_episodes.note(batch.pk, NAME, record(4))
    assertContains(client.get(address("episode_state", batch)), 'data-count="4"')
    later = client.get(address("episode_steps", batch), {"from": "2"})
    assert [f"shelf {i}" in later.content.decode() for i in range(4)] == [False, False, True, True]
    assertContains(client.get(reverse("training:rollouts", args=[batch.pk])), address("episode", batch))


def test_long_results_go_on_when_asked(researcher: Membership, batch: RolloutBatch) -> None:
    live_episodes.note(batch.pk, NAME, record(2, long=" and more\n" * 3000))
    for index in (0, 1):
        part = client_of(researcher).get(
            address("episode_part", batch, index),
            {"at": "after.0", "as": "text", "from": "4000"},
            headers={"HX-Request": "true"},
        )
        assertContains(part, "and more")


def test_an_ended_episode_leads_to_its_trajectory(researcher: Membership, batch: RolloutBatch) -> None:
    live_episodes.note(batch.pk, NAME, record(2))
    run = factories.trajectory(
        of=factories.task(of=researcher.workspace), rollout_batch=batch, external_id="rule:lamp#0"
    )
    live_episodes.end(batch.pk, NAME)
    client = client_of(researcher)
    assertContains(client.get(address("episode_state", batch)), reverse("trajectories:detail", args=[run.pk]))
    assertRedirects(client.get(address("episode", batch)), reverse("trajectories:detail", args=[run.pk]))
    assert live_episodes.playing(batch.pk) == []


def test_only_episodes_in_progress_take_room_in_the_cache(researcher: Membership, batch: RolloutBatch) -> None:
    live_episodes.note(batch.pk, NAME, record(2))
    assert len(live_episodes.steps_of(batch.pk, NAME)[0]) == 2
    live_episodes.end(batch.pk, NAME)
    assert live_episodes.steps_of(batch.pk, NAME) == ([], [])
    assert client_of(researcher).get(address("episode", batch)).status_code == 200


def test_outsiders_follow_nothing(batch: RolloutBatch) -> None:
    live_episodes.note(batch.pk, NAME, record(1))
    for member in (factories.member(Role.RESEARCHER), factories.member(Role.ANNOTATOR, of=batch.workspace)):
        for name, more in (("episode", ()), ("episode_state", ()), ("episode_steps", ()), ("episode_part", (0,))):
            assert client_of(member).get(address(name, batch, *more), {"from": "0"}).status_code == 404
