"""Moving experiments along: from finished rollouts to a queue, and from enough judgments to a verdict."""

import logging

from apps.arena import lifecycle
from apps.arena.models import Experiment
from workers.app import app

log = logging.getLogger(__name__)


@app.task(name="experiments.advance_all")
def advance_all() -> None:
    """Look at every experiment that is under way, or is again; the clock calls this, so a lost message only delays."""
    lifecycle.take_up_again()
    under_way = [Experiment.State.ROLLING_OUT, Experiment.State.LABELLING]
    for experiment in Experiment.objects.filter(state__in=under_way).order_by("id").iterator():
        try:
            lifecycle.advance(experiment)
        except Exception:  # one that breaks must not keep those of other people from going on
            log.exception("%s could not be advanced", experiment)
