"""Condenses the trainer's events for the database: only what is worth a row, in as few rows as possible. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from apps.training.progress import Beginning, Happening, News
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


def digest(events: Iterable[StampedEvent], *, after: int, offset: int) -> News | None:
    """Summary of the events numbered above `after`; None if there are none. `offset` is the byte after the last."""
    fresh = [stamped for stamped in events if stamped.seq > after]
    if not fresh:
        return None
    began: Beginning | None = None
    step = total_steps = checkpoint_step = memory_mb = None
    metrics: dict[int, dict[str, float | None]] = {}
    times: dict[int, datetime] = {}
    happenings: list[Happening] = []
    for stamped in fresh:
        at = datetime.fromtimestamp(stamped.at, UTC)
        match stamped.event:
            case Started() as started:
                began = Beginning(
                    at=at,
                    step=started.step,
                    total_steps=started.total_steps,
                    device=started.device,
                    parameters=started.total_parameters,
                )
                step, total_steps, memory_mb = started.step, started.total_steps, started.memory_mb
                happenings.append(Happening(at, "started", _in_words(started)))
            case Progress(step=now_at, total=total):
                step, total_steps = now_at, total
            case Metrics(step=measured_at, values=values):
                metrics.setdefault(measured_at, {}).update(values)
                times[measured_at] = at
            case CheckpointSaved(step=saved_at):
                checkpoint_step = saved_at
                happenings.append(Happening(at, "checkpoint", f"Saved a checkpoint at step {saved_at}."))
            case Heartbeat(memory_mb=used):
                memory_mb = used
            case Log(message=message):
                happenings.append(Happening(at, "log", message))
            case Tracked(name=name, url=url):
                happenings.append(Happening(at, "tracked", f"The curves are on {name}, too.", {"url": url}))
            case AlarmRaised() as alarm:
                words = f"At step {alarm.step}. {alarm.message} {alarm.advice}".strip()
                happenings.append(Happening(at, "alarm", words, _details(alarm)))
            case Warned(message=message, advice=advice):
                happenings.append(Happening(at, "warning", f"{message} {advice}".strip()))
    return News(
        seq=fresh[-1].seq,
        offset=offset,
        began=began,
        step=step,
        total_steps=total_steps,
        checkpoint_step=checkpoint_step,
        memory_mb=memory_mb,
        metrics=metrics,
        measured_at=times,
        happenings=happenings,
    )


def _details(alarm: AlarmRaised) -> dict[str, Any]:
    named = {"setting": alarm.setting, "value": alarm.value} if alarm.setting else {}
    return {"name": alarm.name, "step": alarm.step, **named}


def _in_words(started: Started) -> str:
    begins = "Training begins" if started.step == 0 else f"Training continues from step {started.step}"
    if not started.total_parameters:
        return f"{begins} on {started.device}."
    share = started.trainable_parameters / started.total_parameters
    trained = "all" if share == 1 else f"{share:.2%}"
    return f"{begins} on {started.device}: {trained} of {started.total_parameters:,} parameters learn."
