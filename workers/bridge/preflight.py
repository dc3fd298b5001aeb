"""Looks before anything starts: is the model there, does it fit?"""

from apps.training.folders import RunFolder
from trainer.configs import RunConfig


def refuse_what_cannot_work(config: RunConfig, folder: RunFolder) -> None:
    """Raises RunFailure."""
