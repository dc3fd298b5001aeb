"""The interface that every kind of destination implements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple

from django.conf import settings

from apps.webhooks.models import Delivery, Destination


class Outcome(NamedTuple):
    """The result of an attempt."""

    status: int | None = None
    problem: str = ""
    """Why it failed; empty if it was delivered."""
    is_gone: bool = False
    """Whether the destination should never be tried again."""


Send = Callable[[Sequence[Delivery]], Outcome]


@dataclass(frozen=True)
class Channel:
    """A kind of destination."""

    open: Callable[[Destination], AbstractContextManager[Send]]
    """Opens a connection to a destination; the context manager returns its send function."""
    max_batch: int = 1
    """Maximum number of deliveries combined in one message."""
    pause_seconds: int = 0
    """Minimum pause between two messages, so that people aren't flooded."""


def line_of(delivery: Delivery) -> str:
    """A delivery as one line of text, with a link if the installation's own URL is configured."""
    if settings.SITE_URL and delivery.page:
        return f"{delivery.title} {settings.SITE_URL}{delivery.page}"
    return delivery.title
