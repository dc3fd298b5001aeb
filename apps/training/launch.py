"""Launching a run: what a plan says is stored; the rest is checked by a worker, before anything starts."""

from __future__ import annotations

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import User
from apps.jobs.lifecycle import queue
from apps.training.models import Run, RunEvent, RunReward
from apps.training.plan import Plan


@transaction.atomic
def launch_run(*, plan: Plan, by: User) -> Run:
    """Queue the run that `plan` describes."""
    run = Run.objects.create(
        workspace=plan.workspace,
        name=plan.name,
        algorithm=plan.algorithm,
        version=plan.version,
        base=plan.base,
        preset=plan.preset,
        config=plan.stored,
        total_steps=plan.steps,
        created_by=by,
    )
    RunReward.objects.bulk_create(
        RunReward(run=run, policy=reward.policy, term=reward.term, component=reward.component, weight=reward.weight)
        for reward in plan.rewards
    )
    RunEvent.objects.create(run=run, kind="launched", text=f"Launched by {by}.")
    audit.record(
        workspace=plan.workspace,
        actor=by,
        action="launched a training run",
        subject=run.name,
        about=run,
        algorithm=plan.algorithm,
        version=str(plan.version or ""),
        config=plan.stored,
    )
    queue(run)
    return run
