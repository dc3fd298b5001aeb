"""Condenses the trainer's events for the database: only those worth storing, in as few rows as possible. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from apps.training.progress import RunUpdate, TimelineEntry, TrainingStart
from contract.events import (
    AlarmRaised,
    CheckpointSaved,
    Heartbeat,
    Log,
    Metrics,
    Progress,
    StampedEvent,
    Started,
    Tracked,
    Warned,
)


def digest(events: Iterable[StampedEvent], *, after: int, offset: int) -> RunUpdate | None:
    """Summary of the events numbered above `after`; None if there are none. `offset` is the byte after the last."""
    new = [stamped for stamped in events if stamped.seq > after]
    if not new:
        return None
    began: TrainingStart | None = None
    step = total_steps = checkpoint_step = memory_mb = None
    metrics: dict[int, dict[str, float | None]] = {}
    times: dict[int, datetime] = {}
    timeline: list[TimelineEntry] = []
    for stamped in new:
        at = datetime.fromtimestamp(stamped.at, UTC)
        match stamped.event:
            case Started() as started:
                began = TrainingStart(
                    at=at,
                    step=started.step,
                    total_steps=started.total_steps,
                    device=started.device,
                    parameters=started.total_parameters,
                )
                step, total_steps, memory_mb = started.step, started.total_steps, started.memory_mb
                lost_steps = [step_before for step_before in metrics if step_before > started.step]
                for lost_step in lost_steps if started.total_steps else ():
                    del metrics[lost_step], times[lost_step]
                timeline.append(TimelineEntry(at, "started", _start_text(started)))
            case Progress(step=current, total=total):
                step, total_steps = current, total
            case Metrics(step=metrics_step, values=values):
                metrics.setdefault(metrics_step, {}).update(values)
                times[metrics_step] = at
            case CheckpointSaved(step=saved_step):
                checkpoint_step = saved_step
                timeline.append(TimelineEntry(at, "checkpoint", f"Saved a checkpoint at step {saved_step}."))
            case Heartbeat(memory_mb=current_mb):
                memory_mb = current_mb
            case Log(message=message):
                timeline.append(TimelineEntry(at, "log", message))
            case Tracked(name=name, url=url):
                timeline.append(TimelineEntry(at, "tracked", f"The curves are on {name}, too.", {"url": url}))
            case AlarmRaised() as alarm:
                text = f"At step {alarm.step}. {alarm.message} {alarm.advice}".strip()
                timeline.append(TimelineEntry(at, "alarm", text, _details(alarm)))
            case Warned(message=message, advice=advice):
                timeline.append(TimelineEntry(at, "warning", f"{message} {advice}".strip()))
    return RunUpdate(
        seq=new[-1].seq,
        offset=offset,
        began=began,
        step=step,
        total_steps=total_steps,
        checkpoint_step=checkpoint_step,
        memory_mb=memory_mb,
        metrics=metrics,
        measured_at=times,
        timeline=timeline,
    )


def _details(alarm: AlarmRaised) -> dict[str, Any]:
    setting = {"setting": alarm.setting, "value": alarm.value} if alarm.setting else {}
    return {"name": alarm.name, "step": alarm.step, **setting}


def _start_text(started: Started) -> str:
    opening = "Training begins" if started.step == 0 else f"Training continues from step {started.step}"
    if not started.total_parameters:
        return f"{opening} on {started.device}."
    share = started.trainable_parameters / started.total_parameters
    trained = "all" if share == 1 else f"{share:.2%}"
    return f"{opening} on {started.device}: {trained} of {started.total_parameters:,} parameters are trained."
