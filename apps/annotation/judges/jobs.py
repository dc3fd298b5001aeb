"""Machine annotators as jobs: a stretch of a queue at a time, by one worker at a time."""

from collections.abc import Mapping
from typing import Any

from django.urls import reverse

from apps.accounts.models import User
from apps.annotation.desk.actions import take_back_skips
from apps.annotation.models import Judge
from apps.jobs.kinds import Kind, register
from apps.jobs.models import Phase
from apps.policies.models import Policy

LOADED_TASK, SERVED_TASK = "scoring.go_on", "judging.go_on"


def _task(judge: Judge) -> str:
    """Served models are asked from any worker; a reward model is loaded where there is an accelerator, if there is one."""
    policy = judge.annotator.policy
    return LOADED_TASK if policy is not None and policy.kind == Policy.Kind.REWARD_MODEL else SERVED_TASK


def _ask_again(judge: Judge, by: User | None) -> Mapping[str, Any]:
    """Pairs that got no usable answer are asked about again."""
    judge.answers.exclude(error="").delete()
    if judge.mode == Judge.Mode.JOIN:
        take_back_skips(queue=judge.queue, annotator=judge.annotator)
    return {"failed": 0}


JUDGES = register(
    Kind(
        name="judges",
        noun="judge",
        label="Judge",
        model=Judge,
        task=_task,
        title=lambda judge: f"{judge.annotator.name} in {judge.queue.name}",
        url=lambda judge: reverse("annotation:judges", args=[judge.queue_id]),
        related=("queue", "annotator__policy__endpoint"),
        listed_with=("queue", "annotator__policy"),
        is_cancellable=True,
        is_resumable=True,
        resumable=(Phase.FAILED, Phase.CANCELLED, Phase.DONE),  # the queue may have grown
        before_resuming=_ask_again,
        cancel_words="Pause",
    )
)
