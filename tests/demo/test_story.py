"""The demo only does what the pages would accept: every run is launched with valid settings."""

import pytest

from apps.arena.lifecycle import advance, resume_failed
from apps.arena.models import Experiment
from apps.demo import people, scenes, story
from apps.jobs.models import JobState
from apps.training.models import Run
from apps.training.plan import merged
from apps.training.presets import PRESETS
from apps.trajectories.models import RolloutBatch
from contract.configs import run_config_from_json
from tests import factories


def test_every_run_of_the_story_has_settings_that_the_form_would_take(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[dict] = []
    monkeypatch.setattr(scenes, "run", lambda scene, **wanted: requests.append(wanted) or True)
    for step in (story.model_is_tried, story.model_learns, story.model_improves, story.model_trains_online):
        step(None)  # type: ignore[arg-type]  # nothing is looked up
    for wanted in requests:
        start = PRESETS[wanted["preset"]].config(algorithm=wanted["algorithm"], method="full", parameters=1_000_000)
        named = {"kind": wanted["algorithm"], "model": {"path": "base"}}
        data = {} if wanted["dataset"] is None else {"data": {"train": "t"}}
        config = run_config_from_json(merged({**start, **named, **data}, wanted.get("changes") or {}))
        assert config.rows_per_step >= 8
    assert len(requests) == 4


def test_a_first_model_is_tried_while_the_rest_is_still_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of training runs has something to show within a minute, rather than after six thousand trajectories have been judged."""
    launched: list[str] = []
    monkeypatch.setattr(story.cache, "add", lambda *_, **__: True)
    monkeypatch.setattr(story.Scene, "of", lambda _: None)
    for name in ("scripted_policy", "rollouts", "queue", "version", "experiment"):
        monkeypatch.setattr(scenes, name, lambda *_, **__: True)
    monkeypatch.setattr(scenes, "judge_by_rule", lambda share, **_: share < 1)
    monkeypatch.setattr(scenes, "run", lambda scene, name, **_: bool(launched.append(name)))
    story.advance(None)  # type: ignore[arg-type]  # nothing is looked up
    assert launched == ["office-check"]


@pytest.fixture
def scene(db: None) -> scenes.Scene:
    workspace = people.demo_workspace()
    story.scripts_act(scenes.Scene.of(workspace))
    return scenes.Scene.of(workspace)


def test_rollouts_that_fail_are_tried_again_and_not_for_ever(scene: scenes.Scene):
    for attempt in (1, 2, scenes.MAX_TRIES):
        RolloutBatch.objects.update(state=JobState.FAILED, failure={"message": "Killed."}, attempt=attempt)
        assert not story.scripts_act(scene)
        states = set(RolloutBatch.objects.values_list("state", flat=True))
        assert states == ({JobState.WAITING} if attempt < scenes.MAX_TRIES else {JobState.FAILED})


def test_rollouts_that_somebody_cancelled_stay_so(scene: scenes.Scene):
    RolloutBatch.objects.update(state=JobState.CANCELLED, attempt=1)
    assert not story.scripts_act(scene)
    assert set(RolloutBatch.objects.values_list("state", flat=True)) == {JobState.CANCELLED}


def test_a_run_that_fails_is_tried_again(scene: scenes.Scene):
    run = factories.run(of=scene.workspace, name="office-check", state=Run.State.FAILED, attempt=1)
    assert not story.model_is_tried(scene)
    run.refresh_from_db()
    assert run.state == Run.State.QUEUED


def test_an_experiment_goes_on_once_its_failed_rollouts_are_tried_again(scene: scenes.Scene):
    story.scripts_meet_blind(scene)
    experiment = Experiment.objects.get()
    RolloutBatch.objects.filter(pk=experiment.rollouts_a_id).update(
        state=JobState.FAILED, failure={"message": "Killed."}, attempt=1
    )
    advance(experiment)
    experiment.refresh_from_db()
    assert experiment.state == Experiment.State.FAILED
    story.scripts_meet_blind(scene)
    assert resume_failed() == 1
