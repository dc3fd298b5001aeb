"""The first round of the loop: what this workspace has done of it, and the next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.urls import reverse

from apps.annotation.models import Queue
from apps.home.decision import Decision
from apps.home.glance import Station


@dataclass(frozen=True)
class FirstStep:
    """A step of the loop, and what the workspace has for it."""

    title: str
    reason: str
    action: str
    url: str
    """Empty if the page's first suggestion links there already."""
    is_form: bool
    """Whether the button changes something, so that it must be posted."""
    done: str
    """What exists already; empty if nothing does."""
    now: str
    """What is in progress, and how far; may be empty."""
    is_next: bool


WORDS: Mapping[str, tuple[str, str, str, str]] = {
    "trajectories": (
        "Import your trajectories",
        "From a file in any known format, from your agent as it works, or from a policy that attempts tasks of a built-in environment.",
        "Import your trajectories",
        "trajectories:imports",
    ),
    "annotation": (
        "Judge them",
        "Say which of two is better, or choose trajectories from the list and create a queue of them.",
        "Try labeling",
        "try_labeling",
    ),
    "datasets": (
        "Freeze the judgments",
        "A dataset version never changes, and its hash proves it.",
        "Freeze a version",
        "datasets:list",
    ),
    "training": (
        "Train on the version",
        "A reward model, or a policy that learns from it.",
        "New training run",
        "training:new",
    ),
    "arena": (
        "Compare the new policy, blind",
        "Both attempt the same held-out tasks, and people judge without knowing which is which.",
        "Compare two policies",
        "arena:new",
    ),
}
"""By the station's app: title, reason, label of the button, and URL name."""

ONE = {
    "trajectories": "trajectory",
    "annotation": "judgment",
    "datasets": "version",
    "training": "training run",
    "arena": "experiment",
}
"""The singular of a station's noun."""


def first_steps(stations: Sequence[Station], *, to_label: Queue | None, decision: Decision | None) -> list[FirstStep]:
    """The steps in order; empty once all are done. to_label: a queue with work for this member. decision: the page's first suggestion."""
    stations_by_app = {station.app: station for station in stations if station.app in WORDS}
    missing = [app for app in WORDS if not _is_done(stations_by_app[app])]
    if not missing:
        return []
    steps = [_step(app, stations_by_app[app], app == missing[0], to_label) for app in WORDS]
    offered = decision.url.partition("?")[0] if decision else ""
    return [replace(step, url="") if step.url == offered else step for step in steps]


def _is_done(station: Station) -> bool:
    return bool(station.there) and station.has_result


def _step(app: str, station: Station, is_next: bool, to_label: Queue | None) -> FirstStep:
    title, reason, action, name = WORDS[app]
    url = reverse(name)
    if app == "annotation" and to_label is not None:
        reason, action = "A queue is open, and has work for you.", "Start labeling"
        url = reverse("annotation:desk", args=[to_label.pk])
    is_form = url == reverse("try_labeling")
    noun = ONE[app] if station.there.number == 1 else station.name.lower()
    done = f"{station.there} {noun}" if _is_done(station) else ""
    now = station.now if station.is_active or not done else ""
    return FirstStep(title, reason, action, url, is_form, done, now, is_next)
