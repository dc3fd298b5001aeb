"""Publishes a policy, which goes live only after verifying that the server answers with it."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.conf import settings
from django.db import transaction

from apps.common import disk
from apps.jobs import lifecycle
from apps.jobs.models import Failure
from apps.policies import publication_progress
from apps.policies.locations import Weights, weights_of
from apps.policies.models import Publication
from trainer.failures import DataFailure
from trainer.serving.client import ServerProblem
from workers.bridge.adapters import publish_adapter
from workers.bridge.policy_export import export, point_current_at
from workers.bridge.refusals import CannotPublish, Refused
from workers.bridge.retirement import retire
from workers.bridge.whole_models import publish_whole_model

DISK_FULL = Failure(
    "disk_full",
    "The disk that policies are copied to is full, so nothing was published.",
    "Free some space, then publish it again.",
)


def publish(publication: Publication) -> None:
    """Execute a claimed publication, and record its result. Raises Superseded."""
    method = {
        Publication.Way.FOLDER: _as_folder,
        Publication.Way.ADAPTER: publish_adapter,
        Publication.Way.RESTART: publish_whole_model,
    }[Publication.Way(publication.way)]
    try:
        weights = weights_of(publication.policy)
        if weights is None or publication.policy.workspace_id != publication.workspace_id:
            raise CannotPublish(f"{publication.policy} has no weights here.")
        method(publication, weights, renew=_throttled_renewal(publication))
    except Refused as refused:
        reason = (
            f"{refused.server}: {refused}" if publication.endpoint and publication.endpoint.replicas else str(refused)
        )
        publication_progress.refuse(publication, reason=reason, canary=refused.verdict.to_json())
    except (CannotPublish, ServerProblem, DataFailure, OSError, ValueError) as problem:
        lifecycle.fail(
            publication,
            DISK_FULL if disk.is_out_of_space(problem) else Failure("cannot_publish", disk.words_of(problem)),
        )
    finally:
        retire(publication)  # a worker presumed dead may have loaded it after the publication ended


def _throttled_renewal(publication: Publication) -> Callable[[], None]:
    """Returns a function that renews the publication's lease; it may be called at any rate. Raises Superseded."""
    next_at = time.monotonic()

    def renew() -> None:
        nonlocal next_at
        if time.monotonic() >= next_at:
            lifecycle.renew(publication)
            next_at = time.monotonic() + settings.WORKER_LEASE_SECONDS / 6

    return renew


def _as_folder(publication: Publication, weights: Weights, *, renew: Callable[[], None]) -> None:
    """A folder isn't served, so verification means comparing every byte with the run's files."""
    folder = export(publication, weights, renew=renew)
    with transaction.atomic():  # only the holder of the publication may change `current`
        publication_progress.go_live(publication, canary={"finding": "copied"}, location=str(folder))
        point_current_at(folder)
