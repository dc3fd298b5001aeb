"""A workspace with rows in every table."""

from datetime import timedelta
from typing import Any

from django.utils.timezone import now

from apps.accounts.models import Membership, Role
from apps.annotation.models import (
    Adjudication,
    Assignment,
    Correction,
    Desk,
    Guideline,
    Inspection,
    Item,
    ItemAssignee,
    Judge,
    JudgeAnswer,
    JudgePrompt,
    Mark,
    Preference,
    Rating,
    Remark,
    StepLabel,
)
from apps.arena.models import Experiment, LiveAttempt
from apps.arena.queries import current_standing
from apps.datasets.models import TaskSplit, Version, VersionJudgment
from apps.gateway.models import Call, Path, Session, SessionEvent, UsageLimits
from apps.training.models import Metric, Run, RunReward
from apps.trajectories.models import ImportBatch, RejectedRow, Trajectory
from tests import factories

HOSTILE = 'Half \ud83d a pair, "quotes", \\u0000, and \u2028 a line separator'


def fill(owner: Membership, things: dict[str, Any]) -> None:
    """Add to `things` (tests/addresses.py) the rows that no URL needs."""
    here = owner.workspace
    former_member = factories.member(Role.REVIEWER, of=here, name="Somebody who left").user
    former_member.memberships.all().delete()
    trajectory = Trajectory.objects.get(pk=things["trajectory_id"])
    Trajectory.objects.filter(pk=trajectory.pk).update(reward=0.5, tags=["odd", "même"])
    UsageLimits.objects.create(workspace=here, requests_a_minute=60, dollars_a_day="12.50")
    batch = ImportBatch.objects.filter(workspace=here).first()
    RejectedRow.objects.create(batch=batch, position=3, line=4, reason="Not JSON.", expected="JSON.", excerpt="{")
    session = Session.objects.filter(workspace=here, calls__isnull=False).latest("pk")
    call = session.calls.latest("pk")
    tokens = {"prompt_ids": bytes(range(8)), "sampled_ids": b"\xff\xfe\xfd\xfc", "logprobs": b"\x00\x80\x00\x80"}
    Call.objects.filter(pk=call.pk).update(
        **tokens,
        cost="0.000000012345",
        reply={"choices": [{"message": {"role": "assistant", "content": HOSTILE}, "finish_reason": "stop"}]},
        sequence_digest=bytes(16),
    )
    SessionEvent.objects.create(session=session, key="e1", type="reward", name="polite", value=0.5, call=call)
    Session.objects.create(
        workspace=here,
        training_address="http://127.0.0.1:9/secret/v1",
        training_name="run",
        served_name="run",
        task={"key": "lamp"},
        key_digest="1" * 64,
        key_prefix="rs_1",
        idle_seconds=60,
        expires_at=now(),
    )
    Path.objects.create(session=session, leaf=call, trajectory=trajectory, is_main=True)
    preference = Preference.objects.filter(workspace=here).first()
    assert preference is not None
    pairs = preference.queue
    pairs.labelers.add(owner.user, former_member)
    Guideline.objects.create(queue=pairs, version=1, text="Prefer what works.", created_by=former_member)
    Desk.objects.create(queue=pairs, annotator=preference.annotator, judged=1, seconds=2.5)
    ItemAssignee.objects.create(item=preference.item, queue=pairs, user=former_member)
    Adjudication.objects.create(
        workspace=here,
        queue=pairs,
        item=preference.item,
        by=former_member,
        strength=2,
        reason="Clear.",
        was_blind=False,
    )
    Remark.objects.create(
        workspace=here, queue=pairs, item=preference.item, annotator=preference.annotator, by=former_member, text="Why?"
    )
    rated = _judged(here, trajectory, "rating")
    rating = Rating.objects.create(**rated, seconds=3, thumb=1, answers={"clear": 2})
    Mark.objects.create(rating=rating, index=0, kind="subgoal", note="There it is.")
    looked = _judged(here, trajectory, "steps")
    inspection = Inspection.objects.create(**looked, seconds=3, ending="found_error", first_error=0)
    StepLabel.objects.create(inspection=inspection, index=0, value=-1, spans=[{"quote": HOSTILE}])
    Correction.objects.create(
        inspection=inspection, index=0, message=factories.assistant_message("No."), origin="written"
    )
    judge = Judge.objects.get(pk=things["judge_id"])
    JudgePrompt.objects.create(judge=judge, version=1, text="Which is better?", created_by=former_member)
    item = Item.objects.filter(queue=judge.queue).first()
    JudgeAnswer.objects.create(judge=judge, item=item, prompt_version=1, a_left=1, b_left=1, strength=1, margin=0.25)
    run = Run.objects.get(pk=things["run_id"])
    failed = Version.objects.filter(workspace=here, state="failed").first()
    split, _ = TaskSplit.objects.get_or_create(
        task=trajectory.task, defaults={"workspace": here, "split": "validation"}
    )
    VersionJudgment.objects.create(version=failed, rating=rating, task=trajectory.task, split=split.split, row=0)
    RunReward.objects.create(run=run, policy_id=things["policy_id"], term="taste", component="learned", weight=0.5)
    Metric.objects.create(run=run, step=1, values={"loss": 0.25})
    experiment = Experiment.objects.get(pk=things["experiment_id"])
    experiment.recorded_a = [trajectory.pk]
    experiment.verdict = {**current_standing(experiment).as_evidence(), "promoted": str(experiment.policy_a_id)}
    experiment.state, experiment.stopped_at = Experiment.State.STOPPED, now()
    experiment.save()
    LiveAttempt.objects.create(experiment=experiment, side=0, task=trajectory.task, trajectory=trajectory)


def _judged(here: Any, trajectory: Trajectory, kind: str) -> dict[str, Any]:
    queue = factories.queue(of=here, kind=kind)
    item = Item.objects.create(
        queue=queue, kind=kind, position=0, task=trajectory.task, a=trajectory, overlap=1, taken=1, judged=1
    )
    annotator = factories.annotator(of=here)
    held = {"workspace": here, "queue": queue, "item": item, "annotator": annotator}
    assignment = Assignment.objects.create(
        **held, state="judged", a_is_left=True, leased_until=now() + timedelta(hours=1), closed_at=now()
    )
    return {**held, "assignment": assignment}
