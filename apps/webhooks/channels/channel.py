"""What every kind of destination has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

from django.conf import settings

from apps.webhooks.models import Delivery, Destination


class Outcome(NamedTuple):
    """What came of an attempt."""

    status: int | None = None
    problem: str = ""
    """Why it failed; empty where it's delivered."""
    is_gone: bool = False
    """Whether the destination is to be left alone for good."""


Send = Callable[[Sequence[Delivery]], Outcome]


@dataclass(frozen=True)
class Channel:
    """A kind of destination."""

    open: Callable[[Destination], AbstractContextManager[Send]]
    """What sends to a destination, for as long as the context lasts."""
    most_at_once: int = 1
    """Deliveries that go out as one message."""
    pause_seconds: int = 0
    """Between two messages: so that people aren't flooded."""


def line_of(delivery: Delivery) -> str:
    """A delivery as people read it, with where to look where the installation knows its own address."""
    if settings.SITE_URL and delivery.page:
        return f"{delivery.title} {settings.SITE_URL}{delivery.page}"
    return delivery.title
