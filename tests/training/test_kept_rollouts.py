"""From a point on a curve to the rollouts behind it."""

import json
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role
from apps.training.folders import folder_of
from apps.training.kept_rollouts import NotSampled, open_sampled, sampled
from apps.training.models import Run
from apps.trajectories.models import Trajectory
from tests import factories

pytestmark = pytest.mark.django_db


def keep(run: Run, name: str, *, tasks: int = 2, broken: str = "") -> Path:
    """The rollouts of a step as kept by the trainer."""
    folder = folder_of(run.pk).path / "rollouts"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps(
            {
                "format": "retrace/1",
                "id": f"{name}:task-{number}#0",
                "task": {"key": f"task-{number}", "instruction": "Find it.", "environment": "office"},
                "policy": "model",
                "steps": [
                    {
                        "context": [{"role": "user", "content": "Find it."}],
                        "message": factories.assistant_message(f"{number}"),
                    }
                ],
                "outcome": {"reward": 0.5, "success": number == 0, "termination": "done"},
                "info": {"step": 10, "advantage": 0.1},
            }
        )
        for number in range(tasks)
    ]
    path = folder / f"{name}.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines) + broken)
    return path


@pytest.fixture
def member(client: Client):
    made = factories.member()
    client.force_login(made.user)
    return made


def test_a_point_opens_the_newest_rollouts_up_to_it(client: Client, member):
    run = factories.run(of=member.workspace, name="grpo")
    for name in ("step-000010", "evaluation-000010", "step-000020"):
        keep(run, name)
    (folder_of(run.pk).path / "rollouts" / "notes.txt").touch()
    assert (sampled(run).training, sampled(run).evaluation, sampled(run).steps) == ([10, 20], [10], [10, 20])
    answer = client.post(reverse("training:open_rollouts", args=[run.pk]), {"step": "17"})
    page = client.get(answer.headers["Location"]).content.decode()
    rollouts = Trajectory.objects.filter(source="training")
    assert rollouts.count() == 4
    assert {tuple(rollout.tags) for rollout in rollouts} == {
        (f"grpo · step 10 · {run.pk.hex[-6:]}", "training"),
        (f"grpo · step 10 · {run.pk.hex[-6:]}", "evaluation"),
    }
    assert rollouts[0].info["run"] == str(run.pk)
    assert all(reverse("trajectories:detail", args=[rollout.pk]) in page for rollout in rollouts)
    client.post(reverse("training:open_rollouts", args=[run.pk]), {"step": "10"})
    assert rollouts.count() == 4


def test_the_line_that_is_being_written_is_left_for_later(member):
    run = factories.run(of=member.workspace)
    keep(run, "step-000001", tasks=1, broken='{"format": "retr')
    open_sampled(run=run, step=1, by=member.user)
    assert Trajectory.objects.count() == 1


def test_without_rollouts_there_is_nothing_to_open(client: Client, member):
    run = factories.run(of=member.workspace)
    with pytest.raises(NotSampled, match="kept no rollouts up to step 5"):
        open_sampled(run=run, step=5, by=member.user)
    answer = client.post(reverse("training:open_rollouts", args=[run.pk]), {"step": "5"})
    assert answer.headers["Location"] == reverse("training:run", args=[run.pk])


def test_the_page_marks_the_steps_of_which_rollouts_are_kept(client: Client, member):
    run = factories.run(of=member.workspace)
    keep(run, "step-000010")
    assert client.get(reverse("training:run", args=[run.pk])).context["sampled_steps"] == [10]
    assert client.get(reverse("training:series", args=[run.pk])).json()["sampled"] == [10]


def test_strangers_open_nothing(client: Client, member):
    run = factories.run(of=member.workspace)
    keep(run, "step-000010")
    for stranger in (factories.member(), factories.member(Role.REVIEWER, of=member.workspace)):
        client.force_login(stranger.user)
        assert client.post(reverse("training:open_rollouts", args=[run.pk]), {"step": "10"}).status_code == 404
    assert not Trajectory.objects.exists()
