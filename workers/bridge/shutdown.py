"""Whether this worker was asked to go away. Its children then save a checkpoint, and their runs go to other workers at once."""

from multiprocessing import RawValue
from typing import Any

from celery.signals import worker_shutting_down

# The signal is sent in the worker's main process while the tasks run in processes that it forked, so this lives in shared
# memory. It needs no lock: it changes once, from 0 to 1.
_asked = RawValue("b", 0)


@worker_shutting_down.connect
def _note(**_: Any) -> None:
    _asked.value = 1


def is_under_way() -> bool:
    """Whether to hand work back instead of going on with it."""
    return bool(_asked.value)
