"""What the story asks for is what the pages would take: every run is launched with settings in their ranges."""

import pytest

from apps.demo import making, story
from apps.training.recipes import settings_from


def test_every_run_of_the_story_has_settings_that_the_form_would_take(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict] = []
    monkeypatch.setattr(making, "run", lambda scene, **wanted: asked.append(wanted) or True)
    for step in (story.model_is_tried, story.model_learns, story.model_improves, story.model_practises):
        step(None)  # type: ignore[arg-type]  # nothing is looked up
    for wanted in asked:
        settings = settings_from(
            preset=wanted["preset"],
            algorithm=wanted["algorithm"],
            method="full",
            parameters=making.PARAMETERS,
            changes=wanted.get("changes") or {},
        )
        assert settings.rows_a_step >= 8
    assert len(asked) == 4


def test_a_first_model_is_tried_while_the_rest_is_still_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs page has something to show within a minute, not when six thousand runs are judged."""
    launched: list[str] = []
    monkeypatch.setattr(story.cache, "add", lambda *_, **__: True)
    monkeypatch.setattr(story.Scene, "of", lambda _: None)
    for name in ("scripted_policy", "rollouts", "queue", "version", "experiment"):
        monkeypatch.setattr(making, name, lambda *_, **__: True)
    monkeypatch.setattr(making, "judge_by_rule", lambda share, **_: share < 1)
    monkeypatch.setattr(making, "run", lambda scene, name, **_: bool(launched.append(name)))
    story.go_on(None)  # type: ignore[arg-type]  # nothing is looked up
    assert launched == ["office-check"]
