"""Publishes a policy, and lets it answer only after the canary has proven that it is the policy."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from apps.jobs import lifecycle
from apps.jobs.models import Failure
from apps.policies import delivering
from apps.policies.models import Publication
from apps.policies.weights import Weights, weights_of
from trainer.canary import Canary, Verdict, judge, read_canary
from trainer.failures import DataFailure
from trainer.serving.client import ServedModel, ServerProblem, VllmServer
from workers.bridge.exporting import export

LOOK_EVERY_SECONDS = 1.0


class CannotPublish(Exception):
    """Why not, in words for the page."""


class Refused(Exception):
    """What answered is not the policy."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.verdict = verdict


def publish(publication: Publication) -> None:
    """Do a claimed publication to its end, and write down which. Raises Superseded."""
    way = {
        Publication.Way.FOLDER: _as_folder,
        Publication.Way.ADAPTER: _as_adapter,
        Publication.Way.RESTART: _as_whole_model,
    }[Publication.Way(publication.way)]
    try:
        weights = weights_of(publication.policy)
        if weights is None or publication.policy.workspace_id != publication.workspace_id:
            raise CannotPublish(f"{publication.policy} has no weights here.")
        way(publication, weights)
    except Refused as refused:
        delivering.refuse(publication, reason=str(refused), canary=refused.verdict.to_json())
    except (CannotPublish, ServerProblem, DataFailure, OSError, ValueError) as problem:
        lifecycle.fail(publication, Failure("cannot_publish", str(problem)))


def _renewing(publication: Publication) -> Callable[[], None]:
    """Keeps the publication for another lease, however often it is called. Raises Superseded."""
    next_at = time.monotonic()

    def renew() -> None:
        nonlocal next_at
        if time.monotonic() >= next_at:
            lifecycle.renew(publication)
            next_at = time.monotonic() + settings.WORKER_LEASE_SECONDS / 6

    return renew


def _as_folder(publication: Publication, weights: Weights) -> None:
    """Nothing answers from a folder, so what is proven is that every byte is the run's."""
    place = export(publication, weights, renew=_renewing(publication))
    delivering.go_live(publication, canary={"finding": "copied"}, location=str(place))


def _as_adapter(publication: Publication, weights: Weights) -> None:
    verdict = swap_in(publication, weights, renew=_renewing(publication))
    delivering.go_live(publication, canary=verdict.to_json(), location=str(weights.adapter))


def swap_in(publication: Publication, weights: Weights, *, renew: Callable[[], None] = lambda: None) -> Verdict:
    """Load an adapter beside what is live, ask the canary there, and only then swap; a refused adapter never has the name.

    Raises Refused, CannotPublish, ServerProblem.
    """
    canary = _canary_of(publication, weights)
    path = adapter_path(weights)
    trial = f"{publication.name}--trial-{publication.pk.hex[-8:]}"
    with server_of(publication) as server:
        base = server.base_model()
        if publication.name == base.name:
            raise CannotPublish(f"{publication.name!r} is what the server calls its base model. Choose another name.")
        before = next((model for model in server.models() if model.name == publication.name), None)
        _refuse_what_is_not_ours(publication, server, before)
        of_base = server.logprobs(base.name, canary.probes)
        renew()
        try:
            server.load_adapter(trial, path)
            renew()
            _prove(canary, server, trial, of_base)
            renew()
            server.load_adapter(publication.name, path)
            renew()
            try:
                return _prove(canary, server, publication.name, of_base)
            except (Refused, ServerProblem):
                _put_back(server, publication.name, before)
                raise
        finally:
            with suppress(ServerProblem):
                server.unload_adapter(trial)


def _refuse_what_is_not_ours(publication: Publication, server: VllmServer, found: ServedModel | None) -> None:
    """Another workspace may have published under this name on the same server: its policy must not be replaced in silence.

    Raises CannotPublish.
    """
    ours = Publication.objects.beside(publication).select_related("policy")
    adapters = {adapter_path(weights) for each in ours if (weights := weights_of(each.policy))}
    if found is not None and found.root not in adapters:
        raise CannotPublish(
            f"{server.url} serves something else as {found.name!r}: {found.root or 'a model'}. Choose another name."
        )


def _as_whole_model(publication: Publication, weights: Weights) -> None:
    """Point the server's keeper at the model and wait; where the canary refuses what comes up, point it back."""
    canary = _canary_of(publication, weights)
    pointer = pointer_of(publication)
    pointer.parent.mkdir(parents=True, exist_ok=True)
    before = _pointed_at(publication)
    _replace(pointer, _pointing(publication, weights))
    try:
        with server_of(publication) as server:
            _wait_for(publication, server, weights.model)
            verdict = _prove(canary, server, publication.name, None)
    except (Refused, CannotPublish, ServerProblem):
        if before is None:
            pointer.unlink(missing_ok=True)
        else:
            _replace(pointer, before)
        raise
    delivering.go_live(publication, canary=verdict.to_json(), location=str(weights.model))


def _pointed_at(publication: Publication) -> str | None:
    """What the pointer says for the model that is live on the server; None where it serves its default.

    Not what stands in the file: a worker that was killed may have left there what nothing has proven.
    """
    assert publication.endpoint is not None, "a constraint holds it"
    here = Publication.objects.live().filter(endpoint__base_url=publication.endpoint.base_url)
    live = here.filter(way=Publication.Way.RESTART).select_related("policy", "endpoint").order_by("-live_at").first()
    weights = weights_of(live.policy) if live else None
    return _pointing(live, weights) if live and weights else None


def _pointing(publication: Publication, weights: Weights) -> str:
    home = pointer_of(publication).parent
    return json.dumps({"model": os.path.relpath(weights.model, home), "served_name": publication.name})


def pointer_of(publication: Publication) -> Path:
    """The file that the keeper of the publication's server watches: `served/<host>-<port>.json` under RUNS_DIR."""
    assert publication.endpoint is not None, "a constraint holds it"
    place = urlsplit(publication.endpoint.base_url)
    return (
        Path(settings.RUNS_DIR)
        / "served"
        / f"{place.hostname}-{place.port or (443 if place.scheme == 'https' else 80)}.json"
    )


def _wait_for(publication: Publication, server: VllmServer, model: Path) -> None:
    """Until the server has started with `model`. Raises CannotPublish."""
    deadline = time.monotonic() + settings.SERVER_START_SECONDS
    tail = model.parts[-2:]
    while not _serves(server, lambda served: served.name == publication.name and Path(served.root).parts[-2:] == tail):
        lifecycle.renew(publication)
        if time.monotonic() > deadline:
            raise CannotPublish(
                f"{server.url} did not come up with the model within {settings.SERVER_START_SECONDS} s. Is it run by "
                f"trainer/serving/keeper.py with --pointer {pointer_of(publication)}? Its log says more."
            )
        time.sleep(LOOK_EVERY_SECONDS)


def _serves(server: VllmServer, wanted: Callable[[ServedModel], bool]) -> bool:
    try:
        return any(wanted(served) for served in server.models())
    except ServerProblem:
        return False  # on its way down or up


def _prove(canary: Canary, server: VllmServer, name: str, of_base: list[list[float]] | None) -> Verdict:
    """Raises Refused."""
    verdict = judge(canary, server.logprobs(name, canary.probes), served_base=of_base)
    if not verdict.passed:
        raise Refused(verdict)
    return verdict


def _put_back(server: VllmServer, name: str, before: ServedModel | None) -> None:
    """Let the name mean what it meant; nothing, where it meant nothing."""
    if before is None:
        server.unload_adapter(name)
    else:
        server.load_adapter(name, before.root)


def server_of(publication: Publication) -> VllmServer:
    assert publication.endpoint is not None, "a constraint holds it"
    return VllmServer(publication.endpoint.base_url, key_variable=publication.endpoint.key_variable)


def _canary_of(publication: Publication, weights: Weights) -> Canary:
    facts: dict[str, Any] = publication.policy.report.get("canary") or {}
    return read_canary(weights.run, sha256=facts.get("sha256", ""))


def adapter_path(weights: Weights) -> str:
    """Where the server finds the adapter."""
    return str(Path(settings.SERVED_RUNS_DIR) / weights.adapter.relative_to(settings.RUNS_DIR))


def _replace(path: Path, text: str) -> None:
    """Whole or not at all: the keeper may look at any moment."""
    unfinished = path.with_suffix(".part")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)
