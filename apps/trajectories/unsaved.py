"""Steps of a trajectory that isn't stored yet, as displayed in the replay: of an episode or a session in progress."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from apps.trajectories.models import Step
from apps.trajectories.outlines import outline
from apps.trajectories.rendering.steps import StepView, step_views
from contract.messages import Message
from contract.trajectory import Trajectory


def steps_of(record: Trajectory) -> list[Step]:
    """The steps as unsaved rows."""
    return [
        Step(
            index=index,
            kind=line.kind,
            tool=line.tool,
            headline=line.headline,
            result=line.result,
            is_error=line.is_error,
            reward=step.reward,
            seconds=step.seconds,
            context_chars=line.context_chars,
            result_chars=line.result_chars,
            context=step.context,
            message=step.message,
            info={"error": step.error} if step.error else {},
        )
        for index, (step, line) in enumerate(zip(record.steps, outline(record), strict=True))
    ]


class LiveStep(NamedTuple):
    """A step of a page that is updated live."""

    view: StepView
    mark: str
    """By it the page notices that its steps aren't the beginning of these: another chat of the session is now the longest, or the episode was
    restarted."""


def views_from(
    steps: list[Step], answer: list[Message], first: int, part_url: str, marks: Sequence[str]
) -> list[LiveStep]:
    """The steps from `first` on, opened. `answer`: what came back after the last one. `part_url` is completed with a step's index. `marks`: one for
    each step.
    """
    views = step_views(
        steps[first:],
        following=answer,
        previous_kind=steps[first - 1].kind if 0 < first <= len(steps) else "",
        part_url=lambda index: f"{part_url}{index}/",
    )
    return [LiveStep(view, mark) for view, mark in zip(views, marks[first:], strict=True)]
