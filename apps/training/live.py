"""Live updates for the pages of a run or a batch of rollouts."""

from typing import Any
from uuid import UUID

from django.db.models import Avg, FloatField, IntegerField
from django.db.models.functions import Cast
from django.template.loader import render_to_string

from apps.accounts.models import Membership
from apps.common import quantities
from apps.common.live import LiveConsumer, send
from apps.policies.held_out_success import OnTask, levels_of
from apps.training.folders import folder_of
from apps.training.models import Run
from apps.training.queries import TIMELINE, episodes_of_rollouts, episodes_of_runners, headway
from apps.training.remedies import alarms_of
from apps.trajectories.models import RolloutBatch, Trajectory
from apps.trajectories.rollouts import live_episodes

SHOWN = 50
ALARMS = 6


def run_group(run_id: UUID) -> str:
    return f"run.{run_id}"


def rollouts_group(batch_id: UUID) -> str:
    return f"rollouts.{batch_id}"


def run_context(run: Run) -> dict[str, Any]:
    """Template context for the live parts of a run's page."""
    log = folder_of(run.pk).log
    return {
        "run": run,
        "headway": headway(run),
        "episodes": episodes_of_runners(run),
        "failure_log": "\n".join(run.failure.get("log", [])),
        "alarms": alarms_of(run, limit=ALARMS),
        "timeline": list(run.events.exclude(kind="log").order_by("-id")[:TIMELINE]),
        "log_size": log.stat().st_size if log.exists() else 0,
    }


def rollouts_context(batch: RolloutBatch) -> dict[str, Any]:
    """Template context for the live part of a batch's page."""
    arrived = Trajectory.objects.filter(rollout_batch=batch).select_related("task")
    light = arrived.defer("tools", "closing", "info", "task__initial_state", "task__success_check")
    return {
        "batch": batch,
        "failure_log": "\n".join(batch.failure.get("log", [])),
        "share": quantities.percent(batch.finished / batch.total) if batch.total else "",
        "trajectories": list(light.order_by("-id")[:SHOWN]),
        "episodes": episodes_of_rollouts(batch),
        "playing": live_episodes.playing(batch.pk) if batch.is_active else [],
        "missing": batch.total - batch.finished,
        "levels": levels_of(_by_task(batch)),
    }


def _by_task(batch: RolloutBatch) -> list[OnTask]:
    rows = Trajectory.objects.filter(rollout_batch=batch, success__isnull=False)
    share = Avg(Cast("success", IntegerField()), output_field=FloatField())
    shares = rows.values_list("task__environment", "task__difficulty", "task_id").annotate(share=share).order_by()
    return [OnTask(environment, level, mean) for environment, level, _, mean in shares]


def show(run_id: UUID) -> None:
    """Send a run's current state to everyone viewing it."""
    run = Run.objects.select_related("version__dataset", "base", "result", "created_by").get(pk=run_id)
    send(run_group(run_id), render_to_string("training/_live.html", run_context(run)))


def show_rollouts(batch_id: UUID) -> None:
    """Send a batch's current state to everyone viewing it."""
    batch = RolloutBatch.objects.select_related("policy", "created_by").get(pk=batch_id)
    send(rollouts_group(batch_id), render_to_string("training/_rollouts_live.html", rollouts_context(batch)))


class RunConsumer(LiveConsumer):
    """Live updates of one run."""

    def find_group(self, member: Membership) -> str | None:
        run_id: UUID = self.scope["url_route"]["kwargs"]["run_id"]
        return run_group(run_id) if Run.objects.visible_to(member).filter(pk=run_id).exists() else None


class RolloutsConsumer(LiveConsumer):
    """Live updates of one batch of rollouts."""

    def find_group(self, member: Membership) -> str | None:
        batch_id: UUID = self.scope["url_route"]["kwargs"]["batch_id"]
        return (
            rollouts_group(batch_id) if RolloutBatch.objects.visible_to(member).filter(pk=batch_id).exists() else None
        )
