"""Every task: ids in, one call, nothing out. Each may be delivered twice; the second time it finds nothing to take.

Those of `training` wait in the worker queue `train`, those that generate in `generate`, all others in `default` (`apps.common.broker`).
"""

import logging
from typing import Any
from uuid import UUID

from django.contrib.sessions.backends.db import SessionStore

from apps.accounts.models import Workspace
from apps.annotation.desk import assignments, continuations
from apps.annotation.judges import enrollment, judge_job
from apps.annotation.quality import reports
from apps.annotation.queues import items, settings
from apps.annotation.user_feedback import judgments as user_feedback
from apps.arena import lifecycle as experiments
from apps.arena.models import Experiment
from apps.common import idempotency
from apps.datasets import freezing
from apps.demo import story
from apps.demo.people import SLUG
from apps.gateway import sessions as gateway_sessions
from apps.jobs import lifecycle
from apps.jobs.models import Superseded
from apps.policies import publication
from apps.removal import removal_job
from apps.removal import retention as retention_rules
from apps.traces import retention, trace_trajectories
from apps.training import launch, runner_rollouts
from apps.trajectories.imports import import_job
from apps.trajectories.imports.live import LiveImport
from apps.trajectories.rollouts import rollout_batches
from apps.webhooks import delivery as webhooks
from apps.webhooks import retention as webhook_retention
from apps.webhooks.outbox import TASK as WEBHOOK_TASK
from workers.app import app
from workers.bridge import reward_scores
from workers.bridge.adapter_restore import restore_adapters
from workers.bridge.continuation_job import ContinuationJob
from workers.bridge.preflight import check
from workers.bridge.publication_job import publish
from workers.bridge.retirement import retire_all
from workers.bridge.rollouts import RolloutJob
from workers.bridge.supervisor import work
from workers.bridge.training_job import TrainingJob
from workers.bridge.whole_models import point_back_abandoned

log = logging.getLogger(__name__)

CHORES = (
    assignments.expire_leases,
    items.fill_stalled,
    settings.close_ended,
    gateway_sessions.abandon_idle,
    webhooks.deliver_due,
    user_feedback.judge_feedback,
    runner_rollouts.count_all,
)
"""What gives back what people and workers held and let go: functions without arguments that may run twice, at once, or late."""


@app.task(name=import_job.TASK)
def run_import(batch_id: str) -> None:
    import_job.run_import(batch_id, watch=LiveImport())


@app.task(name="filling.fill")
def fill_queue(queue_id: str) -> None:
    """Turn a queue's selection into items. Delivered twice, it goes on where the first one is."""
    try:
        items.fill(UUID(queue_id))
    except Exception as error:
        items.record_failure(UUID(queue_id), f"{type(error).__name__}: {error}")
        raise


@app.task(name="quality.measure")
def measure_quality(queue_id: str) -> None:
    reports.measure_quality(UUID(queue_id))


@app.task(name=enrollment.SERVED_TASK)
def judge_by_served_model(judge_id: str) -> None:
    """Judge for a minute and hand on."""
    judge_job.go_on(UUID(judge_id))


@app.task(name=enrollment.LOADED_TASK)
def judge_by_reward_model(judge_id: str) -> None:
    """Score a stretch of a queue and hand on."""
    reward_scores.go_on(UUID(judge_id))


@app.task(name=continuations.LOADED_TASK)
def continue_by_loaded_model(continuation_id: str) -> None:
    work(continuations.CONTINUATIONS, continuation_id, ContinuationJob)


@app.task(name=continuations.SERVED_TASK)
def continue_by_served_model(continuation_id: str) -> None:
    work(continuations.CONTINUATIONS, continuation_id, ContinuationJob)


@app.task(name=freezing.TASK)
def freeze(version_id: str) -> None:
    freezing.freeze(UUID(version_id))


@app.task(name=removal_job.TASK)
def remove(removal_id: str) -> None:
    removal_job.remove(UUID(removal_id))


@app.task(name="removal.apply_rules")
def apply_retention_rules() -> None:
    """Ask for what retention rules let go, once a day for each rule."""
    retention_rules.apply_rules()


@app.task(name=launch.CHECK_TASK, acks_late=False)
def check_plan(key: str, plan: dict[str, Any]) -> None:
    """Look at the model and the memory of a planned run, and leave the answer where the page finds it. The training workers may be busy for hours."""
    launch.answer(key, check(plan))


@app.task(name=launch.TASK)
def run_training(run_id: str) -> None:
    work(launch.RUNS, run_id, TrainingJob)


@app.task(name=rollout_batches.TASK)
def run_rollouts(batch_id: str) -> None:
    work(rollout_batches.ROLLOUTS, batch_id, RolloutJob)


@app.task(name=rollout_batches.RUNNERS_TASK)
def give_out_rollouts(batch_id: str) -> None:
    runner_rollouts.give_out(UUID(batch_id))


@app.task(name=gateway_sessions.COUNT_TASK, acks_late=False)
def count_rollouts(batch_id: str) -> None:
    """What came of the episodes that runners have finished."""
    runner_rollouts.count(UUID(batch_id))


@app.task(name=publication.TASK)
def publish_policy(publication_id: str) -> None:
    """It moves files and asks servers, and needs no accelerator."""
    claimed = lifecycle.claim(publication.PUBLICATIONS, publication_id)
    if claimed is None:
        return
    try:
        publish(claimed)
    except Superseded:
        return  # another worker has it: this one was believed dead


@app.task(name=WEBHOOK_TASK, acks_late=False)
def deliver(destination_id: str) -> None:
    """Send what is due to one destination. A lost message only delays."""
    webhooks.deliver(UUID(destination_id))


# What the clock asks for ----------------------------------------------------------------------------------------------


@app.task(name="jobs.recover", acks_late=False)
def recover_jobs() -> None:
    """Give jobs of vanished workers to others, and remind the workers of jobs that wait too long. The one place that brings jobs back."""
    lifecycle.recover_all()


@app.task(name="leases.expire", acks_late=False)
def expire_leases() -> None:
    """Run every chore; one that fails does not keep the others from running."""
    for chore in CHORES:
        try:
            chore()
        except Exception:  # a chore may fail at anything: it is other people's work that it looks after
            log.exception("%s.%s failed; it runs again in 15 seconds", chore.__module__, chore.__name__)


@app.task(name="publishing.restore_adapters")
def restore_servers() -> None:
    """Have every server serve what is live on it, and nothing of ours that isn't."""
    point_back_abandoned()
    restore_adapters()
    retire_all()


@app.task(name="experiments.advance_all")
def advance_experiments() -> None:
    """From finished rollouts to a queue, and from enough judgments to a verdict. A lost message only delays."""
    experiments.take_up_again()
    under_way = [Experiment.State.ROLLING_OUT, Experiment.State.LABELLING]
    for experiment in Experiment.objects.filter(state__in=under_way).order_by("id").iterator():
        try:
            experiments.advance(experiment)
        except Exception:  # one that breaks must not keep those of other people from going on
            log.exception("%s could not be advanced", experiment)


@app.task(name="traces.settle", acks_late=False)
def settle_traces() -> None:
    """Make trajectories of the traces that have ended or rest."""
    trace_trajectories.settle_due()


@app.task(name="traces.forget", acks_late=False)
def forget_spans() -> None:
    """Remove the spans of traces in which nothing has come for long."""
    retention.forget_spans()


@app.task(name="sessions.clear", acks_late=False)
def clear_sessions() -> None:
    """Remove ended sessions from the database, which would keep them forever."""
    SessionStore.clear_expired()


@app.task(name="webhooks.forget", acks_late=False)
def forget_deliveries() -> None:
    """Remove what was delivered, or given up, long ago."""
    webhook_retention.forget_deliveries()


@app.task(name="answers.clear", acks_late=False)
def clear_answers() -> None:
    """Forget requests with an Idempotency-Key whose time is over."""
    idempotency.forget_expired()


@app.task(name="demo.go_on")
def go_on_with_demo() -> None:
    """Take the demo's next steps, if there is a demo and steps are due."""
    workspace = Workspace.objects.filter(slug=SLUG).first()
    if workspace is not None:
        story.go_on(workspace)
