"""Applies an alarm's remedy: the run resumes from its checkpoint with the one setting changed that the alarm names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import transaction

from apps.accounts import audit
from apps.accounts.models import User
from apps.jobs import lifecycle
from apps.training.models import Run, RunEvent
from apps.training.plan import stored_config
from contract.configs import InvalidConfig
from contract.configs.fields import field_at
from contract.configs.paths import at, replaced, value_text


class RemedyRefused(Exception):
    """The alarm's remedy can't be applied."""


class NoRemedy(RemedyRefused):
    """The alarm names no setting, or one that the algorithm no longer has."""


class RemedyInUse(RemedyRefused):
    """The setting already has that value."""


@dataclass(frozen=True)
class Alarm:
    """An alarm as shown on the run's page."""

    id: int
    text: str
    is_open: bool
    """Whether it recommends a value that isn't in use yet."""


def alarms_of(run: Run, *, limit: int) -> list[Alarm]:
    """The run's alarms, newest first."""
    rows = run.events.filter(kind="alarm").order_by("-id")[:limit]
    return [Alarm(row.pk, row.text, _is_open(run, row)) for row in rows]


@transaction.atomic
def resume_with_remedy(*, run: Run, alarm: RunEvent, by: User) -> Run:
    """Change the setting that `alarm` names and queue the run again, to resume from its last checkpoint.

    The run keeps its identity, base, version, and result; the timeline records what changed and from which step.
    Raises RemedyRefused, or NotResumable if the run is active or done.
    """
    run = Run.objects.select_for_update(of=("self",)).select_related("base").get(pk=run.pk)
    if not run.is_resumable:
        raise lifecycle.NotResumable(run)
    setting, value = alarm.details.get("setting", ""), alarm.details.get("value")
    previous = stored_config(run, run.config)
    field = field_at(previous, setting)
    if field is None or field.internal:
        raise NoRemedy("This alarm names no setting to try. Resume the run as it is, or launch a new one.")
    before = at(previous, setting)
    if before == value:
        raise RemedyInUse(f"{field.title} is {value_text(value)} already. Resume the run as it is.")
    rewards = {"rewards": previous.to_json()["rewards"]} if setting.startswith("rewards.") else {}
    config = replaced({**run.config, **rewards}, setting, value)  # a partial config may lack the list
    try:
        stored_config(run, config)
    except InvalidConfig as invalid:
        raise NoRemedy(f"{field.title} can't be {value_text(value)} in this run: {invalid.message}") from None
    Run.objects.filter(pk=run.pk).update(config=config)
    step = run.checkpoint_step or 0
    RunEvent.objects.create(
        run=run,
        kind="changed",
        text=f"{by} changed {field.title} from {value_text(before)} to {value_text(value)}, from step {step} on.",
        details={"setting": setting, "from": before, "to": value, "step": step},
    )
    audit.record(
        workspace=run.workspace,
        actor=by,
        action="changed a setting of a run",
        subject=run.name,
        target=run,
        setting=setting,
        before=before,
        after=value,
    )
    return lifecycle.resume(run, by=by)


def _is_open(run: Run, alarm: RunEvent) -> bool:
    setting: Any = alarm.details.get("setting")
    if not setting:
        return False
    try:
        return bool(at(stored_config(run, run.config), setting) != alarm.details.get("value"))
    except InvalidConfig:  # stored by an earlier release
        return False
