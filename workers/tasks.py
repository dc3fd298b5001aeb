"""All tasks: they take ids, make one call, and return nothing. Each may be delivered twice; the second finds nothing to claim.

Training tasks go to the worker queue `train`, generating ones to `generate`, all others to `default` (`apps.common.broker`).
"""

import logging
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib.sessions.backends.db import SessionStore
from django.db import InterfaceError, OperationalError

from apps.accounts.models import Workspace
from apps.annotation.bulk import assignment
from apps.annotation.desk import assignments, continuations
from apps.annotation.judges import enrollment, judge_job
from apps.annotation.quality import reports
from apps.annotation.queues import items, settings
from apps.annotation.user_feedback import judgments as user_feedback
from apps.arena import lifecycle as experiments
from apps.common import idempotency
from apps.common.one_at_a_time import one_at_a_time
from apps.common.query_time_limit import periodic_lock_time_limit
from apps.datasets import freezing
from apps.demo import story
from apps.demo.people import SLUG
from apps.gateway import sessions as gateway_sessions
from apps.jobs import lifecycle
from apps.jobs.models import Kind, Superseded, kind_of_job
from apps.policies import publication
from apps.removal import removal_job
from apps.removal import retention as retention_rules
from apps.traces import retention, trace_trajectories
from apps.training import launch, runner_rollouts
from apps.trajectories.imports import import_job, upload
from apps.trajectories.imports.live import LiveImport
from apps.trajectories.rollouts import rollout_batches
from apps.transfer import export_job
from apps.transfer import import_job as archive_imports
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
from workers.bridge.supervisor import run_claimed, run_job
from workers.bridge.training_job import TrainingJob
from workers.bridge.whole_models import reset_abandoned_pointers

log = logging.getLogger(__name__)

CHORES = (
    assignments.expire_leases,
    items.fill_stalled,
    settings.close_ended,
    assignment.free_unreachable,
    gateway_sessions.abandon_idle,
    webhooks.deliver_due,
    user_feedback.judge_feedback,
    runner_rollouts.count_all,
)
"""Periodic maintenance: functions without arguments that may run twice, concurrently, or late."""

BY_TURNS: dict[str, Callable[[Any], None]] = {
    launch.RUNS.name: lambda run: run_claimed(run, TrainingJob),
    rollout_batches.ROLLOUTS.name: lambda batch: run_claimed(batch, RolloutJob),
    continuations.CONTINUATIONS.name: lambda continuation: run_claimed(continuation, ContinuationJob),
    enrollment.JUDGES.name: reward_scores.run_slice,
}
"""The function that does a job, by kind, for worker queues in which workspaces take turns."""


def _take_turn(kind: Kind[Any], job_id: str) -> None:
    """Handle the message for a job: do the job whose turn it is."""
    job = lifecycle.claim_in_turn(kind, job_id)
    if job is not None:
        BY_TURNS[kind_of_job(job).name](job)


@app.task(name=import_job.TASK)
def run_import(batch_id: str) -> None:
    import_job.run_import(batch_id, watch=LiveImport())


@app.task(name="queues.fill")
def fill_queue(queue_id: str) -> None:
    """Turn a queue's selection into items. A second delivery continues where the first stopped."""
    try:
        items.fill(UUID(queue_id))
    except (OperationalError, InterfaceError) as error:
        items.record_outage(UUID(queue_id), error)
        raise  # the database is down, or resolved a deadlock: a chore sends stalled fillings again
    except Exception as error:
        items.record_failure(UUID(queue_id), f"{type(error).__name__}: {error}")
        raise


@app.task(name="quality.measure")
def measure_quality(queue_id: str) -> None:
    reports.measure_quality(UUID(queue_id))


@app.task(name=enrollment.SERVED_TASK)
def judge_by_served_model(judge_id: str) -> None:
    """Judge for a minute, then enqueue the next batch."""
    judge_job.run_slice(UUID(judge_id))


@app.task(name=enrollment.LOADED_TASK)
def judge_by_reward_model(judge_id: str) -> None:
    """Score a chunk of a queue, then enqueue the next."""
    _take_turn(enrollment.JUDGES, judge_id)


@app.task(name=continuations.LOADED_TASK)
def continue_by_loaded_model(continuation_id: str) -> None:
    _take_turn(continuations.CONTINUATIONS, continuation_id)


@app.task(name=continuations.SERVED_TASK)
def continue_by_served_model(continuation_id: str) -> None:
    run_job(continuations.CONTINUATIONS, continuation_id, ContinuationJob)


@app.task(name=freezing.TASK)
def freeze(version_id: str) -> None:
    freezing.freeze(UUID(version_id))


@app.task(name=removal_job.TASK)
def remove(removal_id: str) -> None:
    removal_job.remove(UUID(removal_id))


@app.task(name=export_job.TASK)
def export_workspace(export_id: str) -> None:
    export_job.export_workspace(export_id)


@app.task(name=archive_imports.TASK)
def import_workspace(import_id: str) -> None:
    archive_imports.import_workspace(import_id)


@app.task(name="transfer.expire", acks_late=False)
def expire_archives() -> None:
    """Delete archives that have expired."""
    export_job.expire()


@app.task(name="removal.apply_rules")
def apply_retention_rules() -> None:
    """Request removals by retention rules, once a day for each rule."""
    retention_rules.apply_rules()


@app.task(name=launch.CHECK_TASK, acks_late=False)
def check_plan(key: str, plan: dict[str, Any]) -> None:
    """Check a planned run's model and memory, and cache the result for the page. Not on a training worker, which may be busy for hours."""
    launch.answer(key, check(plan), workspace_id=plan["workspace"])


@app.task(name=launch.TASK)
def run_training(run_id: str) -> None:
    _take_turn(launch.RUNS, run_id)


@app.task(name=rollout_batches.TASK)
def run_rollouts(batch_id: str) -> None:
    _take_turn(rollout_batches.ROLLOUTS, batch_id)


@app.task(name=rollout_batches.RUNNERS_TASK)
def open_rollouts_to_runners(batch_id: str) -> None:
    runner_rollouts.open_to_runners(UUID(batch_id))


@app.task(name=gateway_sessions.COUNT_TASK, acks_late=False)
def count_rollouts(batch_id: str) -> None:
    """Update the counts of a batch from episodes that runners have finished."""
    runner_rollouts.count(UUID(batch_id))


@app.task(name=publication.TASK)
def publish_policy(publication_id: str) -> None:
    """Publish a policy. This copies files and calls servers, so it needs no accelerator."""
    claimed = lifecycle.claim(publication.PUBLICATIONS, publication_id)
    if claimed is None:
        return
    try:
        publish(claimed)
    except Superseded:
        return  # another worker has it: this one was presumed dead


@app.task(name=WEBHOOK_TASK, acks_late=False)
def deliver(destination_id: str) -> None:
    """Send due deliveries to one destination. A lost message only causes a delay."""
    webhooks.deliver(UUID(destination_id))


@app.task(name="jobs.recover", acks_late=False)
def recover_jobs() -> None:
    """Requeue jobs of vanished workers, and resend messages for jobs that wait too long. The only place that recovers jobs."""
    with periodic_lock_time_limit():
        lifecycle.recover_all()


@app.task(name="leases.expire", acks_late=False)
def run_chores() -> None:
    """Run every chore; one failing doesn't stop the others."""
    with one_at_a_time("leases.expire", seconds=60) as is_acquired:
        for chore in CHORES if is_acquired else ():
            try:
                with periodic_lock_time_limit():
                    chore()
            except Exception:  # chores call into other apps, so they may fail in any way
                log.exception("%s.%s failed; it runs again in 15 seconds", chore.__module__, chore.__name__)


@app.task(name="publishing.restore_adapters")
def restore_servers() -> None:
    """Make every server serve its live publications, and none that aren't live."""
    with one_at_a_time("publishing.restore_adapters", seconds=300) as is_acquired:
        if is_acquired:
            reset_abandoned_pointers()
            restore_adapters()
            retire_all()


@app.task(name="experiments.advance_all")
def advance_experiments() -> None:
    """Advance experiments: finished rollouts become a queue, and enough judgments a result. A lost message only causes a delay."""
    with one_at_a_time("experiments.advance_all", seconds=60) as is_acquired:
        if not is_acquired:
            return
        experiments.resume_failed()
        for experiment in experiments.under_way_by_turns():
            try:
                with periodic_lock_time_limit():
                    experiments.advance(experiment)
            except Exception:  # a failing experiment mustn't block others
                log.exception("%s could not be advanced", experiment)


@app.task(name="traces.settle", acks_late=False)
def settle_traces() -> None:
    """Turn traces that have ended or gone idle into trajectories."""
    trace_trajectories.settle_due()


@app.task(name="traces.delete_spans", acks_late=False)
def delete_idle_spans() -> None:
    """Remove the spans of traces that have been idle for long."""
    retention.delete_idle_spans()


@app.task(name="sessions.clear", acks_late=False)
def clear_sessions() -> None:
    """Remove expired sessions from the database."""
    SessionStore.clear_expired()


@app.task(name="webhooks.delete_old", acks_late=False)
def delete_old_deliveries() -> None:
    """Remove old deliveries that succeeded or were given up."""
    webhook_retention.delete_old_deliveries()


@app.task(name="uploads.delete_abandoned", acks_late=False)
def delete_abandoned_uploads() -> None:
    """Remove the files of uploads, and of scored trajectories, whose process was killed."""
    upload.delete_abandoned()
    reward_scores.delete_abandoned()


@app.task(name="idempotency_keys.clear", acks_late=False)
def clear_idempotency_keys() -> None:
    """Remove expired Idempotency-Key records."""
    idempotency.delete_expired()


@app.task(name="demo.advance")
def advance_demo() -> None:
    """Take the demo's next steps, if there is a demo and steps are due."""
    workspace = Workspace.objects.filter(slug=SLUG).first()
    if workspace is not None:
        story.advance(workspace)
