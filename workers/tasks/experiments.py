"""Moving experiments along: from finished rollouts to a queue, and from enough judgements to a verdict."""

from apps.arena import experimenting
from apps.arena.models import Experiment
from workers.app import app


@app.task(name="experiments.advance")
def advance(experiment_id: str) -> None:
    """Look at one experiment."""
    experiment = Experiment.objects.filter(pk=experiment_id).first()
    if experiment is not None:
        experimenting.advance(experiment)


@app.task(name="experiments.advance_all")
def advance_all() -> None:
    """Look at every experiment that is under way, or is again; the clock calls this, so a lost message only delays."""
    experimenting.take_up_again()
    under_way = [Experiment.State.ROLLING_OUT, Experiment.State.LABELLING]
    for experiment in Experiment.objects.filter(state__in=under_way).order_by("id").iterator():
        experimenting.advance(experiment)
