"""Unloads publications that have ended: replaced, refused, failed, or abandoned by killed workers.

Each adapter that a server may have loaded has a folder under `served/adapters`, created before loading and removed here after unloading, so
nothing is leaked, no matter when a worker is killed.
"""

from __future__ import annotations

import logging
import shutil
from datetime import timedelta
from pathlib import Path

from django.utils.timezone import now

from apps.annotation.models import Continuation
from apps.common.workspace_turns import in_workspace_turns
from apps.gateway.models import Session
from apps.jobs.models import HELD
from apps.policies.models import Publication
from apps.training.folders import folder_of
from apps.training.models import Run
from apps.trajectories.models import RolloutBatch
from trainer.serving.client import ServerProblem, VllmServer
from workers.bridge.adapters import adapters_folder
from workers.bridge.servers import endpoint_of

logger = logging.getLogger(__name__)
TURN_SECONDS = 60.0
"""Time limit per workspace in a pass, since each of its servers may take half a minute to answer."""

GRACE_PERIOD = timedelta(minutes=2)
"""Grace period for clients that resolved the alias just before it changed: judges resolve it once a minute."""
UNREACHABLE_LIMIT = timedelta(days=7)
"""Give up on a server that was unreachable this long: it has restarted since, and lost its adapters."""


def retire_all() -> list[str]:
    """Retire everything that has ended; returns the names that no server has any more."""
    folders = sorted(adapters_folder().iterdir()) if adapters_folder().is_dir() else []
    names = list(dict.fromkeys(folder.name.removesuffix(".part") for folder in folders))
    publications = Publication.objects.filter(way=Publication.Way.ADAPTER, served_name__in=names)
    served_names = set(publications.values_list("served_name", flat=True))
    for name in names:
        if name not in served_names:
            _remove(name)
    by_turns = in_workspace_turns(publications, name="retire", seconds=TURN_SECONDS)
    return [publication.served_name for publication in by_turns if retire(publication)]


def retire(publication: Publication) -> bool:
    """Unload it everywhere and remove its folder, if it has ended and is no longer used. Idempotent."""
    publication = Publication.objects.select_related("endpoint").get(pk=publication.pk)
    if publication.way != Publication.Way.ADAPTER or publication.ended_at is None or is_in_use(publication):
        return False
    if not _unload(publication) and now() - publication.ended_at < UNREACHABLE_LIMIT:
        return False
    _remove(publication.served_name)
    return True


def _unload(publication: Publication) -> bool:
    """Whether no server has it any more. A server that can't be reached doesn't keep it on the others."""
    endpoint, is_unloaded = endpoint_of(publication), True
    for address in endpoint.addresses:
        try:
            with VllmServer(address, key_variable=endpoint.key_variable) as server:
                server.unload_adapter(publication.served_name)
        except ServerProblem as problem:
            logger.info("%s is not unloaded yet: %s", publication.served_name, problem)
            is_unloaded = False
    return is_unloaded


def is_in_use(publication: Publication) -> bool:
    """A replaced publication is in use by open sessions, which keep their policy to the end, and by running jobs whose run.json names it. One that was
    never live isn't in use.
    """
    if publication.state != Publication.State.REPLACED or publication.ended_at is None:
        return False
    sessions = Session.objects.open().filter(endpoint=publication.endpoint_id, served_name=publication.served_name)
    return (
        now() - publication.ended_at < GRACE_PERIOD
        or sessions.exists()
        or any(publication.served_name in text for text in _configs_of_running_jobs())
    )


def _configs_of_running_jobs() -> list[str]:
    """The run.json of each job that may be using a server right now."""
    jobs = [
        *RolloutBatch.objects.in_phase(*HELD).values_list("pk", flat=True),
        *Continuation.objects.in_phase(*HELD).values_list("pk", flat=True),
        *Run.objects.in_phase(*HELD).values_list("pk", flat=True),
    ]
    paths = [folder_of(job).config for job in jobs]
    return [path.read_text(encoding="utf-8") for path in paths if path.is_file()]


def _remove(name: str) -> None:
    for folder in (adapters_folder() / name, adapters_folder() / f"{name}.part"):
        _remove_folder(folder)


def _remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
