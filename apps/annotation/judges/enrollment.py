"""Sending machine annotators to a queue, and steering them. How they judge is in `judging` and, for reward models, in the workers."""

from contextlib import suppress

from django.db import IntegrityError, transaction

from apps.accounts.models import User
from apps.annotation.audit import record
from apps.annotation.kinds import kind_of
from apps.annotation.models import Annotator, Judge, JudgePrompt, Queue
from apps.annotation.refusals import Refusal
from apps.jobs import lifecycle
from apps.policies.models import Policy

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
    """Let a served model judge a queue; a worker begins at once. Raises NotServed, OnlyPairs, AtWorkAlready."""
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
    """Add a version of the prompt, unless nothing changed. Answers keep the version that they were given to."""
    Judge.objects.select_for_update().get(pk=judge.pk)
    latest = judge.prompts.order_by("-version").first()
    if latest and latest.text == text:
        return latest
    return JudgePrompt.objects.create(
        judge=judge, version=latest.version + 1 if latest else 1, text=text, created_by=by
    )


def pause_judge(*, judge: Judge, by: User | None) -> None:
    """Stop after the pair that it is at. One that is not at work stays as it is."""
    with suppress(lifecycle.NotActive):
        lifecycle.cancel(judge, by=by)


def resume_judge(*, judge: Judge, by: User | None) -> None:
    """Go on: after a pause, after errors, or because the queue grew. Pairs that got no usable answer are asked about again."""
    with suppress(lifecycle.NotResumable):
        lifecycle.resume(judge, by=by)


def _audit(judge: Judge, by: User | None, action: str) -> None:
    record(judge.queue, by, action, who=judge.annotator, judge=str(judge.pk))
