"""LoRA adapters on running servers. Each publication has its own name and folder there, so the old and the new one can serve side by side.

Everything here is idempotent: a worker that takes over from a killed one continues with the existing copy or loaded adapter.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from apps.policies import publication_progress
from apps.policies.locations import Weights
from apps.policies.models import Publication
from trainer.canary import Canary, Verdict, judge
from trainer.serving.client import VllmServer
from trainer.serving.prefix_cache import fill, from_cache, prompts_of
from workers.bridge.refusals import CannotPublish, Refused, canary_of
from workers.bridge.servers import endpoint_of, path_on_servers, served_folder, servers_of

FILES = ("adapter_config.json", "adapter_model.safetensors")
"""The only files a server gets: no code or pickles next to them."""


class Adapter(NamedTuple):
    """A publication's adapter as servers see it, and its canary."""

    name: str
    path: str
    canary: Canary


def publish_adapter(publication: Publication, weights: Weights, *, renew: Callable[[], None]) -> None:
    """Load it on every server of the endpoint and verify it on each before it goes live. Raises Refused, CannotPublish, ServerProblem, OSError."""
    _refuse_whole_model_name(publication)
    adapter = adapter_of(publication, weights)
    verdicts = []
    for server in servers_of(endpoint_of(publication)):
        with server:
            verdicts.append(load_verified(adapter, server, other_models=live_names(publication), renew=renew))
    worst = max(verdicts, key=lambda verdict: verdict.to_policy)
    publication_progress.go_live(publication, canary=worst.to_json(), location=adapter.path)


def load_verified(
    adapter: Adapter, server: VllmServer, *, other_models: Sequence[str], renew: Callable[[], None] = lambda: None
) -> Verdict:
    """Load an adapter on one server, and verify that it answers, also to prompts that other policies left in the server's prefix cache.

    If refused, it stays loaded under an unpublished name. Raises Refused, ServerProblem.
    """
    base = server.base_model()
    prompts = prompts_of(adapter.canary.probes, longest=base.max_tokens)
    loaded = {model.name for model in server.models()}
    for name in (base.name, *(other for other in other_models if other in loaded)):
        fill(server, name, prompts)
        renew()
    server.load_adapter(adapter.name, adapter.path)
    renew()
    cached = from_cache(server, adapter.name, prompts)
    renew()
    verdict = judge(
        adapter.canary,
        server.logprobs(adapter.name, adapter.canary.probes),
        served_base=server.logprobs(base.name, adapter.canary.probes),
        cached=cached,
    )
    renew()
    if not verdict.passed:
        raise Refused(verdict, server=server.url)
    return verdict


def adapter_of(publication: Publication, weights: Weights) -> Adapter:
    """The publication's own copy of the run's adapter, created if missing. Raises CannotPublish, DataFailure, OSError.

    A copy, because a name must refer to the same weights for as long as a server has it.
    """
    folder = adapters_folder() / publication.served_name
    if not folder.is_dir():
        part = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        for name in FILES:
            source = weights.adapter / name
            if not source.is_file():
                raise CannotPublish(f"{publication.policy}'s run left no {name}. Only safetensors are served.")
            shutil.copyfile(source, part / name)
        os.rename(part, folder)
    return Adapter(publication.served_name, path_on_servers(folder), canary_of(publication, weights))


def adapters_folder() -> Path:
    return served_folder() / "adapters"


def live_names(publication: Publication) -> list[str]:
    """Publications serving the same alias until now, which filled the servers' prefix caches."""
    live = Publication.objects.beside(publication).live().filter(way=Publication.Way.ADAPTER).exclude(pk=publication.pk)
    return list(live.values_list("served_name", flat=True))


def _refuse_whole_model_name(publication: Publication) -> None:
    live = Publication.objects.beside(publication).live().filter(way=Publication.Way.RESTART)
    if live.exists():
        raise CannotPublish(
            f"{publication.name!r} is a whole model, on which the server puts its adapters. Choose another name."
        )
