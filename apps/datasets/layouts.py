"""The row types that a version may have: their columns, and which queues' judgements make them."""

from __future__ import annotations

from apps.annotation.models import Queue
from apps.datasets.rows.columns import Layout, columns

LISTS = columns("texts", "annotators", "judgements", "items")
"""Who judged, which judgements, in which items: every row says so."""
OF_A_RUN = (*columns("text", "id", "task", "environment", "run", "policy"), *columns("number", "weight"))

LAYOUTS: dict[str, Layout] = {
    # None of the columns may be `margin`: TRL gives that a meaning of its own.
    "preference": Layout(
        ("prompt", "chosen", "rejected"),
        (
            *columns("text", "id", "task", "environment", "chosen_run", "rejected_run"),
            *columns("text", "chosen_policy", "rejected_policy", "adjudication"),
            *columns("number", "strength", "weight", "soft_label", "label_weight", "shown_left"),
            *columns("count", "votes_for", "votes_against", "votes_tied"),
            *LISTS,
        ),
    ),
    "step_preferences": Layout(
        ("prompt", "chosen", "rejected"),
        (
            *columns("text", "id", "task", "environment", "chosen_run", "rejected_run"),
            *columns("text", "chosen_policy", "rejected_policy", "origin"),
            *columns("number", "weight"),
            *columns("count", "step"),
            *LISTS,
        ),
    ),
    "steps": Layout(
        ("messages",),
        (*OF_A_RUN, *columns("numbers", "step_labels"), *columns("count", "first_error"), *LISTS),
    ),
    "demonstrations": Layout(
        ("messages",),
        (*OF_A_RUN, *columns("flags", "train_turns"), *columns("text", "origin"), *LISTS),
    ),
    "unpaired": Layout(("prompt", "completion"), (*columns("flag", "label"), *OF_A_RUN, *LISTS)),
}

ROW_TYPES = {
    "preference": "Preferences: the better of two runs",
    "step_preferences": "Step preferences: the better of two actions",
    "steps": "Judged steps: a label at each step",
    "demonstrations": "Demonstrations: accepted or corrected runs",
    "unpaired": "Single runs: desirable or not",
}
"""In the words of pages."""

READ_FROM: dict[str, tuple[str, ...]] = {
    "preference": (Queue.Kind.PAIRWISE,),
    "step_preferences": (Queue.Kind.STEPS, Queue.Kind.PAIRWISE),
    "steps": (Queue.Kind.STEPS,),
    "demonstrations": (Queue.Kind.STEPS, Queue.Kind.RATING),
    "unpaired": (Queue.Kind.STEPS, Queue.Kind.RATING),
}
"""The kinds of queues whose judgements make such rows."""
