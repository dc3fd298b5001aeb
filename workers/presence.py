"""Every worker notes now and then that it is there, for `/healthz`. The signals are sent in the worker's main process."""

import logging
import time
from typing import Any

from celery.signals import heartbeat_sent, worker_ready

from apps.common.health import note_worker
from workers.app import app

logger = logging.getLogger(__name__)

EVERY_SECONDS = 20.0


class Presence:
    """Notes it, for as long as the worker's heart beats."""

    def __init__(self) -> None:
        self.next = 0.0

    def __call__(self, **_: Any) -> None:
        if time.monotonic() < self.next:
            return
        self.next = time.monotonic() + EVERY_SECONDS
        try:
            note_worker(app.amqp.queues.consume_from)
        except Exception as error:  # the cache may be away: signals must not take the worker down
            logger.debug("could not note that this worker is there: %s", error)


presence = Presence()
worker_ready.connect(presence)
heartbeat_sent.connect(presence)
