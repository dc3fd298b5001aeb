"""The events that destinations can subscribe to. Each is a change of state, announced in the transaction that makes it."""

from __future__ import annotations

from django.db import models


class EventType(models.TextChoices):
    """`thing.change`, the `type` of a delivery."""

    RUN_FINISHED = "training_run.finished", "Training run finished"
    RUN_FAILED = "training_run.failed", "Training run failed"
    VERSION_FROZEN = "dataset_version.frozen", "Dataset version frozen"
    VERSION_FAILED = "dataset_version.failed", "Dataset version could not be frozen"
    IMPORT_FINISHED = "import.finished", "Import finished"
    IMPORT_FAILED = "import.failed", "Import failed"
    ROLLOUTS_FINISHED = "rollouts.finished", "Rollouts finished"
    ROLLOUTS_FAILED = "rollouts.failed", "Rollouts failed"
    POLICY_PUBLISHED = "policy.published", "Policy published"
    POLICY_NOT_PUBLISHED = "policy.publication_failed", "Policy could not be published"
    POLICY_PROMOTED = "policy.promoted", "Policy promoted, or rolled back to"
    EXPERIMENT_DECIDED = "experiment.decided", "Experiment ended"
    QUEUE_CLOSED = "queue.closed", "Queue closed"
    SESSION_FINISHED = "session.finished", "Session finished"
    SESSION_ABANDONED = "session.abandoned", "Session abandoned"
    MENTION = "comment.mention", "Somebody mentioned in a comment"


TEST = "webhook.test"
"""The type of a test delivery, which is only sent on request."""
