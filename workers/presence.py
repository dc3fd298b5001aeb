"""Workers report their presence periodically for `/healthz`, and training workers their capacity for planning runs.

The signals are sent in the worker's main process with its heartbeat.
"""

import logging
import time
from typing import Any

from celery.signals import heartbeat_sent, worker_ready

from apps.common.health import note_worker
from workers.app import app
from workers.bridge import capacity

logger = logging.getLogger(__name__)

EVERY_SECONDS = 20.0


class Presence:
    """Reports at intervals."""

    def __init__(self) -> None:
        self.next = 0.0

    def __call__(self, **_: Any) -> None:
        if time.monotonic() < self.next:
            return
        self.next = time.monotonic() + EVERY_SECONDS
        queues = app.amqp.queues.consume_from
        try:
            note_worker(queues)
            if "train" in queues:
                capacity.report()
        except Exception:  # the cache may be down or nvidia-smi may hang, which must not take the worker down
            logger.warning("could not report this worker's presence or capacity", exc_info=True)


presence = Presence()
worker_ready.connect(presence)
heartbeat_sent.connect(presence)
