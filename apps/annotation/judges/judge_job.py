"""Runs machine annotators: a time slice of a queue at a time, by one worker at a time."""

import logging
from collections.abc import Callable, Iterator
from math import exp, isfinite
from time import monotonic
from uuid import UUID

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils.timezone import now

from apps.accounts.models import Workspace
from apps.annotation.desk.actions import record, skip
from apps.annotation.desk.assignments import next_assignment
from apps.annotation.judges.enrollment import JUDGES
from apps.annotation.judges.llm_judge import Model, NoAnswer, Pace, Refused, Usage, Verdict
from apps.annotation.judges.transcript import quoted, transcript
from apps.annotation.kinds import kind_of
from apps.annotation.kinds.answers import Choice
from apps.annotation.kinds.questions import UnfitAnswers
from apps.annotation.models import Assignment, Item, Judge, JudgeAnswer, Queue
from apps.annotation.refusals import QueueNotOpen, Refusal
from apps.jobs import lifecycle
from apps.jobs.models import HELD, Failure, JobQuerySet, Phase, Superseded, lease
from apps.policies.aliases import resolved
from apps.policies.models import Policy
from apps.trajectories.models import Trajectory
from apps.trajectories.outlines import visible

logger = logging.getLogger(__name__)

STRETCH_SECONDS = 60.0
"""Time slice after which a worker hands the judge on, so that other tasks get their turn."""
MAX_CHARACTERS = 24_000
"""Maximum length of each trajectory, and of the task."""
FAILURES_IN_A_ROW = 5
MAX_PER_WORKSPACE = 2
"""Judges of one workspace that run concurrently, so that its unresponsive servers don't block other workspaces."""


def run_slice(judge_id: UUID) -> None:
    """Judge for one time slice, then hand on. Does nothing if another worker has this judge, it isn't active, or its workspace is at the limit."""
    judge = _claim(judge_id)
    if judge is None:
        return
    work(judge, _judge_slice)
    judge.refresh_from_db(fields=["state"])
    following = _waiting(judge).first()
    if judge.phase != Phase.WAITING and following is not None:
        lifecycle.queue(following)


@transaction.atomic
def _claim(judge_id: UUID) -> Judge | None:
    """The judge of the same workspace that has waited longest."""
    judge = JUDGES.rows.filter(pk=judge_id).first()
    if judge is None:
        return None
    # Otherwise two workers could both find room.
    Workspace.objects.select_for_update(no_key=True).get(pk=judge.workspace_id)
    at_work = _served(judge).in_phase(*HELD).filter(leased_until__gte=now()).exclude(pk=judge_id)
    if at_work.count() >= MAX_PER_WORKSPACE:
        return None  # each running judge wakes the workers when it ends or hands on
    return lifecycle.claim(JUDGES, (_waiting(judge).first() or judge).pk)


def _served(judge: Judge) -> JobQuerySet[Judge]:
    """Judges of its workspace that are called over the network."""
    judges = JUDGES.rows.filter(workspace=judge.workspace_id)
    return judges.exclude(annotator__policy__kind=Policy.Kind.REWARD_MODEL)


def _waiting(judge: Judge) -> JobQuerySet[Judge]:
    return _served(judge).waiting().order_by("queued_at", "pk")


def work(judge: Judge, stretch: Callable[[Judge], None]) -> None:
    """Run `stretch` for a claimed judge, and hand it on if there's more to do. `stretch` raises Refused if it can't continue.

    An unexpected error is logged and stops the judge: a retry would reach the same point and pay for the way there each time.
    """
    try:
        with lifecycle.lease_kept(judge):
            _do(judge, stretch)
        if judge.phase in HELD:
            lifecycle.release(judge, "It continues after other work.")
    except Superseded:
        return  # another worker has it


def _do(judge: Judge, stretch: Callable[[Judge], None]) -> None:
    try:
        stretch(judge)
    except Refused as refused:
        fail(judge, "refused", str(refused))
    except (Superseded, OperationalError, InterfaceError):
        raise  # if the database is down, the lease expires and the judge resumes later
    except Exception as error:
        logger.exception("Judge %s failed unexpectedly", judge.pk)
        fail(
            judge,
            "crash",
            "This is an error in Retrace, not in the model; see the server's log. Its judgments are kept. "
            f"Resume it to try again. {type(error).__name__}: {error}",
        )


def fail(judge: Judge, category: str, message: str) -> None:
    """The judge can't continue; record why."""
    lifecycle.fail(judge, Failure(category, visible(message)))


def unasked(judge: Judge) -> QuerySet[Item]:
    """The items that it hasn't answered, in the queue's order, without onboarding items."""
    answers = JudgeAnswer.objects.filter(judge=judge, item=OuterRef("pk"))
    items = Item.objects.filter(~Exists(answers), queue=judge.queue).exclude(purpose=Item.Purpose.ONBOARDING)
    return items.select_related("task", "a", "b").order_by("position")


GRADED = ((0.9, 3), (0.75, 2), (0.55, 1))
"""Grades by minimum probability that a trajectory is the better one; below the last, it's a tie."""


@transaction.atomic
def record_rewards(judge: Judge, item: Item, *, a: float | None, b: float | None) -> None:
    """Record a reward model's answer on a pair: the difference of the rewards, and the resulting grade."""
    columns: dict[str, object] = {"prompt_version": 0, "a_left": 0, "b_left": 0, "strength": 0}
    if a is None or b is None:
        columns["error"] = "Its chat template refuses a trajectory of this pair."
    elif not isfinite(a - b):
        columns["error"] = "Its rewards for this pair aren't finite numbers."
    else:
        strength = graded(a - b)
        columns |= {"a_left": strength, "b_left": strength, "strength": strength, "margin": a - b}
    _, is_new = JudgeAnswer.objects.get_or_create(judge=judge, item=item, defaults=columns)
    counter = "failed" if "error" in columns else "answered"
    lifecycle.record_progress(judge, **{counter: F(counter) + int(is_new)})


def graded(margin: float) -> int:
    """A grade in favor of trajectory a from the difference of rewards, converted to a probability by the Bradley–Terry model."""
    likely = 1 / (1 + exp(-abs(margin)))
    grade = next((grade for least, grade in GRADED if likely >= least), 0)
    return grade if margin > 0 else -grade


def finish(judge: Judge) -> None:
    """Everything is scored. A reward model that counts as an annotator turns its scores into judgments now."""
    if judge.mode == Judge.Mode.JOIN:
        for item, assignment in _assigned(judge):
            answer = JudgeAnswer.objects.filter(judge=judge, item=item).first()
            if answer is None:
                return  # the queue has grown; the next time slice scores the rest
            if assignment is None:
                continue
            if answer.error:
                skip(assignment=assignment, reason="It could not score this pair.")
            else:
                choice = Choice(answer.strength, rationale=f"Margin {answer.margin:.2f}")
                record(assignment=assignment, answer=choice, has_sides=False)
    lifecycle.finish(judge)


def _judge_slice(judge: Judge) -> None:
    prompt = judge.prompts.order_by("-version").first()
    policy = judge.annotator.policy
    if prompt is None or policy is None or policy.endpoint is None:
        raise Refused("The model or its prompt was deleted. Add another judge.")
    if judge.has_spent_all:  # it was resumed
        return _pause_at_budget(judge)
    start = monotonic()
    with Model(
        url=policy.endpoint.base_url,
        model=resolved(policy.endpoint, policy.location).name,
        key_variable=policy.endpoint.key_variable,
        temperature=judge.temperature,
        pace=Pace(judge.requests_a_minute, follows=judge.attempt > 1),
        trying=lambda: lifecycle.write(judge, leased_until=now() + lease()),
    ) as model:
        for item, assignment in _places(judge):
            answer, used = _ask(judge, model, item, prompt.text)
            if isinstance(answer, Verdict):
                _record(judge, item, assignment, answer, prompt.version, used)
            else:
                _record_failure(judge, item, assignment, str(answer), prompt.version, used)
                if _keeps_failing(judge):
                    raise Refused(f"{FAILURES_IN_A_ROW} pairs in a row got no usable answer. The last time: {answer}")
            judge.refresh_from_db(fields=["state", "prompt_tokens", "completion_tokens", "most_cost"])
            if judge.has_spent_all:
                return _pause_at_budget(judge)
            if judge.phase == Phase.STOPPING:
                return lifecycle.stop(judge, "It was paused.")
            if monotonic() - start > STRETCH_SECONDS:
                return None
    if judge.phase in HELD:
        lifecycle.finish(judge)
    return None


def _keeps_failing(judge: Judge) -> bool:
    """Read from the answers, since a slow model doesn't give as many in one time slice."""
    errors = list(judge.answers.order_by("-pk").values_list("error", flat=True)[:FAILURES_IN_A_ROW])
    return len(errors) == FAILURES_IN_A_ROW and all(errors)


def _pause_at_budget(judge: Judge) -> None:
    _pause(
        judge, f"It has cost {judge.cost:.2f}, and its budget is {judge.most_cost:.2f}. Raise the budget to resume it."
    )


def _pause(judge: Judge, message: str) -> None:
    """The judge has to pause; record why."""
    lifecycle.stop(judge, message, failure=Failure("paused", message).as_json())


def _ask(judge: Judge, model: Model, item: Item, criteria: str) -> tuple[Verdict | NoAnswer, Usage]:
    """The model's verdict on a pair, or why its answer is unusable; and the usage, which counts either way."""
    reply: Verdict | NoAnswer
    try:
        reply = model.compare(
            task=quoted(item.task.instruction, max_length=MAX_CHARACTERS),
            a=transcript(item.a, max_length=MAX_CHARACTERS),
            b=transcript(_second(item), max_length=MAX_CHARACTERS),
            criteria=criteria,
        )
    except NoAnswer as problem:
        reply = problem
    finally:
        used = model.pop_usage()
        Judge.objects.filter(pk=judge.pk).update(
            prompt_tokens=F("prompt_tokens") + used.prompt, completion_tokens=F("completion_tokens") + used.completion
        )
    return reply, used


def _places(judge: Judge) -> Iterator[tuple[Item, Assignment | None]]:
    """The remaining items, one after the other; with an assignment if the judge counts as an annotator."""
    if judge.mode == Judge.Mode.JOIN:
        yield from _assigned(judge)
        return
    while item := unasked(judge).first():
        yield item, None


def _assigned(judge: Judge) -> Iterator[tuple[Item, Assignment | None]]:
    while True:
        _refuse_unanswerable(judge.queue)
        try:
            assignment = next_assignment(queue=judge.queue, annotator=judge.annotator)
        except QueueNotOpen as refusal:
            return _pause(judge, str(refusal))
        if assignment is None:
            return
        assignment.queue, assignment.annotator = judge.queue, judge.annotator
        yield Item.objects.select_related("task", "a", "b").get(pk=assignment.item_id), assignment
        judge.queue.refresh_from_db()


def _refuse_unanswerable(queue: Queue) -> None:
    """Raises Refused if a judgment needs answers that models don't give. Its item would stay assigned and be asked about again and again."""
    try:
        kind_of(queue).asked(queue).check({}, {}, needed=0)
    except UnfitAnswers:
        raise Refused(
            "This queue has required questions, and models answer only which trajectory is better. "
            "Make the questions optional in the queue's settings, then resume it."
        ) from None


def _second(item: Item) -> Trajectory:
    assert item.b is not None, "judges are sent to pairs only"
    return item.b


@transaction.atomic
def _record(
    judge: Judge, item: Item, assignment: Assignment | None, verdict: Verdict, version: int, used: Usage
) -> None:
    """Store the answer with both its orders and, if it counts as an annotator, the judgment. Idempotent."""
    columns = {**verdict._asdict(), "prompt_version": version, **_tokens(used)}
    _, is_new = JudgeAnswer.objects.get_or_create(judge=judge, item=item, defaults=columns)
    lifecycle.record_progress(judge, answered=F("answered") + int(is_new))
    if assignment is not None:
        try:
            record(
                assignment=assignment,
                answer=Choice(verdict.strength, both_bad=verdict.both_bad, rationale=verdict.reason),
                has_sides=False,  # it was asked in both orders
            )
        except Refusal:
            return  # others filled the slot meanwhile; the answer is kept anyway


def _tokens(used: Usage) -> dict[str, int]:
    return {"prompt_tokens": used.prompt, "completion_tokens": used.completion}


@transaction.atomic
def _record_failure(
    judge: Judge, item: Item, assignment: Assignment | None, problem: str, version: int, used: Usage
) -> None:
    """Stored, so that the pair isn't asked again and again; `resume_judge` resets it."""
    problem = visible(problem)
    columns = {
        "prompt_version": version,
        "a_left": 0,
        "b_left": 0,
        "strength": 0,
        "error": problem[:2000],
        **_tokens(used),
    }
    _, is_new = JudgeAnswer.objects.get_or_create(judge=judge, item=item, defaults=columns)
    failure = Failure("no_answer", problem[:1000]).as_json()
    lifecycle.record_progress(judge, failed=F("failed") + int(is_new), failure=failure)
    if assignment is not None:
        skip(assignment=assignment, reason=problem[:300])
