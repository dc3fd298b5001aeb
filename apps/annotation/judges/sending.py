"""Sending machine annotators to a queue, and steering them. How they judge is in `judging` and, for reward models, in the workers."""

from django.core.cache import cache
from django.db import IntegrityError, transaction

from apps.accounts.models import User
from apps.annotation.auditing import record
from apps.annotation.desk.labelling import take_back_skips
from apps.annotation.kinds import kind_of
from apps.annotation.models import Annotator, Judge, JudgePrompt, Queue
from apps.annotation.refusals import Refusal
from apps.common.broker import enqueue
from apps.policies.models import Policy

JUDGING = (Policy.Kind.ENDPOINT, Policy.Kind.REWARD_MODEL)
REMIND_SECONDS = 300
"""A judge that waits for a busy worker is not called for more often."""
DEFAULT_PROMPT = (
    "Prefer the run that you would rather have had working for you: first whether it did what was asked, then whether it did no harm, "
    "then how directly it got there."
)


class NotServed(Refusal):
    code = "not_served"
    message = "Only a served model or a reward model can judge. Register a served one under Policies with the address of its server."


class OnlyPairs(Refusal):
    code = "only_pairs"
    message = "Models judge pairs only. Make a queue that compares two runs."


class AtWorkAlready(Refusal):
    code = "at_work_already"
    message = "This model judges here already. Change its prompt or let it go on below."


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
    call_worker(judge)
    return judge


def call_worker(judge: Judge) -> None:
    """Served models are asked from any worker; a reward model is loaded where there is an accelerator, if there is one."""
    policy = judge.annotator.policy
    is_loaded = policy is not None and policy.kind == Policy.Kind.REWARD_MODEL
    enqueue("scoring.go_on" if is_loaded else "judging.go_on", str(judge.pk))


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
    """Stop after the pair that it is at."""
    if Judge.objects.filter(pk=judge.pk, state=Judge.State.RUNNING).update(state=Judge.State.PAUSED):
        _audit(judge, by, "paused judge")


@transaction.atomic
def resume_judge(*, judge: Judge, by: User | None) -> None:
    """Go on: after a pause, after errors, or because the queue grew. Pairs that got no usable answer are asked about again."""
    halted = Judge.objects.filter(pk=judge.pk).exclude(state=Judge.State.RUNNING)
    if halted.update(state=Judge.State.RUNNING, error="", failed=0):
        judge.answers.exclude(error="").delete()
        if judge.mode == Judge.Mode.JOIN:
            take_back_skips(queue=judge.queue, annotator=judge.annotator)
        _audit(judge, by, "resumed judge")
        call_worker(judge)


def _audit(judge: Judge, by: User | None, action: str) -> None:
    record(judge.queue, by, action, who=judge.annotator, judge=str(judge.pk))


def resume_forsaken() -> int:
    """Ask workers again for judges that nobody holds, because a worker died or a message was lost; how many."""
    found = list(Judge.objects.forsaken().select_related("annotator__policy"))
    called = [judge for judge in found if cache.add(f"judge-called:{judge.pk}", True, REMIND_SECONDS)]
    for judge in called:
        call_worker(judge)
    return len(called)
