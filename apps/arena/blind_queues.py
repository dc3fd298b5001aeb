"""The queue in which people judge the pairs of an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.annotation.kinds.pair_selection import Pair
from apps.annotation.models import Queue
from apps.annotation.queues.queue_lifecycle import create_queue_of_pairs
from apps.arena.models import Experiment

GUIDELINES = """\
Two agents did the same task. Which one would you rather have working for you?

- First: did it do what was asked, all of it, and nothing that was not asked?
- Then: was its approach sensible, without needless steps or risks?
- Call it a tie when you would not mind which one you got. Use “both bad” when you would want neither.
"""


def blind_queue(experiment: Experiment, pairs: Sequence[Pair], **selection: Any) -> Queue:
    """A queue of these pairs, with a name that doesn't reveal the policies, since annotators see it."""
    return create_queue_of_pairs(
        workspace=experiment.workspace,
        created_by=experiment.created_by,
        name=f"Blind comparison on {experiment.environment}, {experiment.created_at:%-d %b, %H:%M}",
        pairs=pairs,
        overlap=experiment.plan["overlap"],
        guidelines=GUIDELINES,
        selection={"experiment": str(experiment.pk), **selection},
    )
