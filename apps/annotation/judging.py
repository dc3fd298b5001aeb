"""Machine annotators at work: setting one up, letting it judge a stretch of a queue, stopping it."""

from collections.abc import Iterator
from datetime import timedelta
from time import monotonic
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.timezone import now

from apps.accounts.models import AuditEntry, User, subject_id
from apps.annotation.asking_models import Model, NoAnswer, Pace, Refused, Usage, Verdict
from apps.annotation.assigning import next_assignment
from apps.annotation.labelling import record_preference, skip
from apps.annotation.models import Annotator, Assignment, Item, Judge, JudgeAnswer, JudgePrompt, Queue
from apps.annotation.refusals import QueueNotOpen, Refusal
from apps.annotation.transcribing import transcript
from apps.policies.models import Policy
from apps.trajectories.models import Trajectory
from workers.app import enqueue

LEASE = timedelta(minutes=10)
"""Longer than the slowest pair: two answers with all their tries."""
STRETCH_SECONDS = 60.0
"""After so long a worker hands the judge on, so that other tasks get their turn."""
MOST_CHARACTERS = 24_000
"""Of each run."""
FAILURES_IN_A_ROW = 5
DEFAULT_PROMPT = (
    "Prefer the run that you would rather have had working for you: first whether it did what was asked, then whether it did no harm, "
    "then how directly it got there."
)


class NotServed(Refusal):
    code = "not_served"
    message = "Only a served model can judge: register it under Policies with the address of its server."


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
    if queue.kind != Queue.Kind.PAIRWISE:
        raise OnlyPairs
    if policy.kind != Policy.Kind.ENDPOINT or policy.endpoint is None:
        raise NotServed
    annotator, _ = Annotator.objects.get_or_create(
        workspace_id=queue.workspace_id, kind=Annotator.Kind.MODEL, name=policy.name, defaults={"policy": policy}
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
    _audit(judge, by, "judge.send")
    enqueue("judging.go_on", str(judge.pk))
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
    """Stop after the pair that it is at."""
    if Judge.objects.filter(pk=judge.pk, state=Judge.State.RUNNING).update(state=Judge.State.PAUSED):
        _audit(judge, by, "judge.pause")


def resume_judge(*, judge: Judge, by: User | None) -> None:
    """Go on: after a pause, after errors, or because the queue grew."""
    halted = Judge.objects.filter(pk=judge.pk).exclude(state=Judge.State.RUNNING)
    if halted.update(state=Judge.State.RUNNING, error="", failed=0):
        judge.answers.exclude(error="").delete()
        _audit(judge, by, "judge.resume")
        enqueue("judging.go_on", str(judge.pk))


def _audit(judge: Judge, by: User | None, action: str) -> None:
    AuditEntry.objects.create(
        workspace_id=judge.workspace_id,
        actor=by,
        action=action,
        subject=f"{judge.annotator} in {judge.queue}"[:200],
        subject_id=subject_id(judge.queue),
        detail={"judge": str(judge.pk)},
    )


def resume_forsaken() -> int:
    """Ask workers again for judges that nobody holds, because a worker died or a message was lost; how many."""
    ids = list(Judge.objects.forsaken().values_list("pk", flat=True))
    for judge_id in ids:
        enqueue("judging.go_on", str(judge_id))
    return len(ids)


# At work -------------------------------------------------------------------------------------------------------------


def go_on(judge_id: UUID) -> None:
    """Judge for a while, then hand on. Does nothing where another worker has this judge, or it is not to work."""
    if not Judge.objects.forsaken().filter(pk=judge_id).update(leased_until=now() + LEASE):
        return
    judge = Judge.objects.select_related("queue", "annotator__policy__endpoint").get(pk=judge_id)
    try:
        _stretch(judge)
    except Refused as refused:
        _halt(judge, Judge.State.FAILED, str(refused))
    finally:
        Judge.objects.filter(pk=judge_id).update(leased_until=None)
    if Judge.objects.filter(pk=judge_id, state=Judge.State.RUNNING).exists():
        enqueue("judging.go_on", str(judge_id))


def _stretch(judge: Judge) -> None:
    prompt = judge.prompts.order_by("-version").first()
    policy = judge.annotator.policy
    if prompt is None or policy is None or policy.endpoint is None:
        raise Refused("The model or its prompt is gone. Send another one.")
    began, in_a_row = monotonic(), 0
    with Model(
        url=policy.endpoint.base_url,
        model=policy.location,
        key_variable=policy.endpoint.key_variable,
        temperature=judge.temperature,
        pace=Pace(judge.requests_a_minute),
    ) as model:
        for item, held in _work(judge):
            try:
                verdict = model.compare(
                    task=item.task.instruction,
                    a=transcript(item.a, most=MOST_CHARACTERS),
                    b=transcript(_second(item), most=MOST_CHARACTERS),
                    criteria=prompt.text,
                )
                _record(judge, item, held, verdict, prompt.version, model.take_usage())
                in_a_row = 0
            except NoAnswer as problem:
                in_a_row += 1
                _record_failure(judge, item, held, str(problem), prompt.version, model.take_usage())
                if in_a_row >= FAILURES_IN_A_ROW:
                    raise Refused(f"{in_a_row} pairs in a row got no usable answer. The last time: {problem}") from None
            judge.refresh_from_db(fields=["state", "prompt_tokens", "completion_tokens"])
            if judge.has_spent_all:
                _halt(judge, Judge.State.PAUSED, f"It has cost {judge.cost:.2f}, which is all that it may.")
            if judge.state != Judge.State.RUNNING or monotonic() - began > STRETCH_SECONDS:
                return
            Judge.objects.filter(pk=judge.pk).update(leased_until=now() + LEASE)
    _halt(judge, Judge.State.DONE, "")


def _work(judge: Judge) -> Iterator[tuple[Item, Assignment | None]]:
    """What is left for this judge, one after the other; in a place of its own with its assignment."""
    if judge.mode == Judge.Mode.JOIN:
        yield from _assigned(judge)
        return
    unasked = Item.objects.filter(queue=judge.queue).exclude(judge_answers__judge=judge)
    while item := unasked.select_related("task", "a", "b").order_by("position").first():
        yield item, None


def _assigned(judge: Judge) -> Iterator[tuple[Item, Assignment | None]]:
    while True:
        try:
            held = next_assignment(queue=judge.queue, annotator=judge.annotator)
        except QueueNotOpen as refusal:
            _halt(judge, Judge.State.PAUSED, str(refusal))
            return
        if held is None:
            return
        held.queue, held.annotator = judge.queue, judge.annotator
        yield Item.objects.select_related("task", "a", "b").get(pk=held.item_id), held
        judge.queue.refresh_from_db()


def _second(item: Item) -> Trajectory:
    assert item.b is not None, "judges are sent to pairs only"
    return item.b


@transaction.atomic
def _record(judge: Judge, item: Item, held: Assignment | None, verdict: Verdict, version: int, used: Usage) -> None:
    """The answer with both its orders; and, in a place of its own, the judgement. A second delivery only costs tokens."""
    columns = {**verdict._asdict(), "prompt_version": version, **_tokens(used)}
    _, is_new = JudgeAnswer.objects.get_or_create(judge=judge, item=item, defaults=columns)
    _spend(judge, used, answered=F("answered") + int(is_new))
    if held is not None:
        try:
            record_preference(
                assignment=held, strength=verdict.strength, both_bad=verdict.both_bad, rationale=verdict.reason
            )
        except Refusal:
            return  # others filled the place while the model thought; what it said is kept beside them


def _tokens(used: Usage) -> dict[str, int]:
    return {"prompt_tokens": used.prompt, "completion_tokens": used.completion}


def _spend(judge: Judge, used: Usage, **counted: object) -> None:
    Judge.objects.filter(pk=judge.pk).update(
        prompt_tokens=F("prompt_tokens") + used.prompt,
        completion_tokens=F("completion_tokens") + used.completion,
        **counted,
    )


@transaction.atomic
def _record_failure(judge: Judge, item: Item, held: Assignment | None, problem: str, version: int, used: Usage) -> None:
    """Kept, so that the pair is not asked for again and again; `resume_judge` gives it another chance."""
    columns = {
        "prompt_version": version,
        "a_left": 0,
        "b_left": 0,
        "strength": 0,
        "error": problem[:2000],
        **_tokens(used),
    }
    _, is_new = JudgeAnswer.objects.get_or_create(judge=judge, item=item, defaults=columns)
    _spend(judge, used, failed=F("failed") + int(is_new), error=problem[:1000])
    if held is not None:
        skip(assignment=held, reason=problem[:300])


def _halt(judge: Judge, state: Judge.State, error: str) -> None:
    Judge.objects.filter(pk=judge.pk, state=Judge.State.RUNNING).update(state=state, error=error)
    judge.state = state
