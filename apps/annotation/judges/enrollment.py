"""Adding machine annotators to a queue, and controlling them. `judge_job` does the judging and, for reward models, the workers."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.urls import reverse

from apps.accounts.models import User
from apps.annotation.audit import record
from apps.annotation.desk.actions import reopen_skipped
from apps.annotation.kinds import kind_of
from apps.annotation.models import Annotator, Judge, JudgePrompt, Queue
from apps.annotation.refusals import Refusal
from apps.jobs import lifecycle
from apps.jobs.models import Kind, Phase, register
from apps.policies.models import Policy

LOADED_TASK, SERVED_TASK = "scoring.run_slice", "judging.run_slice"


def _task(judge: Judge) -> str:
    """Served models are called from any worker; a reward model is loaded on an accelerator, if there is one."""
    policy = judge.annotator.policy
    return LOADED_TASK if policy is not None and policy.kind == Policy.Kind.REWARD_MODEL else SERVED_TASK


def _ask_again(judge: Judge, by: User | None) -> Mapping[str, Any]:
    """Reset pairs that got no usable answer, so that they're asked again."""
    judge.answers.exclude(error="").delete()
    if judge.mode == Judge.Mode.JOIN:
        reopen_skipped(queue=judge.queue, annotator=judge.annotator)
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
        turns_at="generate",
        by_turns=Q(annotator__policy__kind=Policy.Kind.REWARD_MODEL),
        is_cancellable=True,
        is_resumable=True,
        resumable=(Phase.FAILED, Phase.CANCELLED, Phase.DONE),  # the queue may have grown
        before_resuming=_ask_again,
        cancel_label="Pause",
    )
)


JUDGING = (Policy.Kind.ENDPOINT, Policy.Kind.REWARD_MODEL)
DEFAULT_PROMPT = (
    "Prefer the trajectory of the agent you'd rather have working for you: first whether it did what was asked, then whether it did no harm, "
    "then how directly it got there."
)


class NotServed(Refusal):
    code = "not_served"
    message = "Only a served model or a reward model can judge. Register a served one under Policies with the address of its server."


class OnlyPairs(Refusal):
    code = "only_pairs"
    message = "Models judge pairs only. Create a queue that compares trajectories."


class AtWorkAlready(Refusal):
    code = "at_work_already"
    message = "This model already judges this queue. Change its prompt or resume it below."


@transaction.atomic
def send_judge(
    *,
    queue: Queue,
    policy: Policy,
    mode: str,
    prompt: str,
    requests_a_minute: int = 60,
    temperature: float = 0.0,
    prompt_price: float = 0.0,
    completion_price: float = 0.0,
    most_cost: float | None = None,
    by: User | None,
) -> Judge:
    """Have a served model judge a queue; a worker starts at once. Raises NotServed, OnlyPairs, AtWorkAlready."""
    if not kind_of(queue).takes_models:
        raise OnlyPairs
    if policy.kind not in JUDGING:
        raise NotServed
    annotator, _ = Annotator.objects.get_or_create(
        workspace_id=queue.workspace_id,
        kind=Annotator.Kind.MODEL,
        name=policy.name,
        source="",
        defaults={"policy": policy},
    )
    try:
        with transaction.atomic():
            judge = Judge.objects.create(
                workspace_id=queue.workspace_id,
                queue=queue,
                annotator=annotator,
                mode=mode,
                requests_a_minute=requests_a_minute,
                temperature=temperature,
                prompt_price=prompt_price,
                completion_price=completion_price,
                most_cost=most_cost,
                created_by=by,
            )
    except IntegrityError:
        raise AtWorkAlready from None
    JudgePrompt.objects.create(judge=judge, version=1, text=prompt, created_by=by)
    _audit(judge, by, "sent judge")
    lifecycle.queue(judge)
    return judge


@transaction.atomic
def revise_prompt(*, judge: Judge, text: str, by: User | None) -> JudgePrompt:
    """Add a version of the prompt if it changed. Existing answers keep the version they were given with."""
    Judge.objects.select_for_update().get(pk=judge.pk)
    latest = judge.prompts.order_by("-version").first()
    if latest and latest.text == text:
        return latest
    return JudgePrompt.objects.create(
        judge=judge, version=latest.version + 1 if latest else 1, text=text, created_by=by
    )


def pause_judge(*, judge: Judge, by: User | None) -> None:
    """Stop after the current pair. No effect if it isn't running."""
    with suppress(lifecycle.NotActive):
        lifecycle.cancel(judge, by=by)


def resume_judge(*, judge: Judge, by: User | None) -> None:
    """Continue after a pause or errors, or because the queue grew. Pairs that got no usable answer are asked again."""
    with suppress(lifecycle.NotResumable):
        lifecycle.resume(judge, by=by)


def set_budget(*, judge: Judge, most_cost: float | None, by: User | None) -> None:
    """Change what the judge may cost in all, from its next pair on. None: no limit."""
    Judge.objects.filter(pk=judge.pk).update(most_cost=most_cost)
    record(judge.queue, by, "set judge's budget", who=judge.annotator, judge=str(judge.pk), most_cost=most_cost)


def _audit(judge: Judge, by: User | None, action: str) -> None:
    record(judge.queue, by, action, who=judge.annotator, judge=str(judge.pk))
