"""Exports a policy to a folder for other programs: `<workspace>/<name>/<id>/`, with `current` pointing at the live one."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from django.conf import settings

from apps.policies.locations import Weights
from apps.policies.models import Publication
from apps.training.model_card import FILE as CARD
from apps.training.model_card import model_card
from trainer.canary import FILE as CANARY
from trainer.failures import DataFailure

MANIFEST = "retrace.json"
ALLOWED_SUFFIXES = {".safetensors", ".json", ".jinja", ".txt", ".md", ".model", ".tiktoken"}
"""Allowed file types: no code, no pickles."""
CHUNK_BYTES = 4 * 1024 * 1024


def export(publication: Publication, weights: Weights, *, renew: Callable[[], None]) -> Path:
    """Copy `model/`, `adapter/` if any, and the canary, and verify the copies. Returns the folder.

    `renew` is called repeatedly, since a large file on a slow disk takes longer than a lease. Raises DataFailure if a copy differs from its source.
    """
    folder = _root(publication) / publication.pk.hex
    for attempt in range(1, publication.attempt + 1):
        shutil.rmtree(_unfinished(publication, attempt), ignore_errors=True)
    unfinished = _unfinished(publication, publication.attempt)
    try:
        _write_export(unfinished, publication, weights, renew)
    except Exception:  # don't let a partial copy occupy space: the disk may be full, and the publication isn't resumed
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    # Another attempt may have finished, if its worker or this one was presumed dead; its folder may be live by now.
    if _is_complete(folder, renew):
        shutil.rmtree(unfinished, ignore_errors=True)
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(unfinished, folder)
    return folder


def point_current_at(folder: Path) -> None:
    """Let `current` lead to a publication that goes live."""
    link = folder.with_name("current.part")
    link.unlink(missing_ok=True)
    link.symlink_to(folder.name)
    os.replace(link, folder.with_name("current"))


def _root(publication: Publication) -> Path:
    return Path(settings.PUBLISHED_DIR) / publication.workspace.slug / publication.name


def _unfinished(publication: Publication, attempt: int) -> Path:
    """The folder of one attempt, since one that was presumed dead may still write."""
    return _root(publication) / f"{publication.pk.hex}-{attempt}.part"


def _is_complete(folder: Path, renew: Callable[[], None]) -> bool:
    """Whether the folder has all of the files that its manifest lists, unchanged."""
    try:
        hashes = json.loads((folder / MANIFEST).read_bytes())["sha256"]
        return all(_sha256(folder / name, renew) == sha256 for name, sha256 in hashes.items())
    except (OSError, ValueError, LookupError, RecursionError):
        return False


def _write_export(root: Path, publication: Publication, weights: Weights, renew: Callable[[], None]) -> None:
    """Copy everything into the folder, with a manifest."""
    root.mkdir(parents=True)
    hashes: dict[str, str] = {}
    for source in _files(weights):
        name = source.relative_to(weights.run)
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        hashes[str(name)] = _copy(source, target, renew)
        if _sha256(target, renew) != hashes[str(name)]:
            raise DataFailure(f"{target} differs from {source} after it was copied.", advice="Check the disk.")
    for folder in (weights.model, weights.adapter) if weights.has_adapter else (weights.model,):
        card = folder.relative_to(weights.run) / CARD
        (root / card).write_text(model_card(publication.policy), encoding="utf-8", errors="replace")
        hashes[str(card)] = _sha256(root / card, renew)
    manifest = json.dumps(_manifest(publication, weights, hashes), indent=2)
    (root / MANIFEST).write_text(f"{manifest}\n", encoding="utf-8")


def _files(weights: Weights) -> list[Path]:
    """The trainer's files. Raises DataFailure if code or a pickle was added next to them."""
    folders = [weights.model, weights.adapter] if weights.has_adapter else [weights.model]
    cards = {folder / CARD for folder in folders}  # written by libraries, with placeholders
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file() and path not in cards]
    for path in files:
        if path.suffix not in ALLOWED_SUFFIXES:
            raise DataFailure(
                f"{path} is neither weights nor settings nor text, so it isn't published.", advice="Remove it."
            )
    return [*files, *([weights.run / CANARY] if (weights.run / CANARY).is_file() else [])]


def _manifest(publication: Publication, weights: Weights, hashes: dict[str, str]) -> dict[str, Any]:
    """The policy, its provenance, and the SHA-256 of every file."""
    policy = publication.policy
    return {
        "policy": policy.name,
        "policy_id": str(policy.pk),
        "base": policy.base.name if policy.base else None,
        "run": weights.run.name,
        "config_hash": policy.report.get("config_hash"),
        "versions": policy.report.get("versions", {}),
        "published": str(publication.pk),
        "sha256": hashes,
    }


def _copy(source: Path, target: Path, renew: Callable[[], None]) -> str:
    """Returns the SHA-256 of the source."""
    digest = hashlib.sha256()
    with target.open("wb") as copy:
        for chunk in _chunks(source, renew):
            digest.update(chunk)
            copy.write(chunk)
    return digest.hexdigest()


def _sha256(path: Path, renew: Callable[[], None]) -> str:
    digest = hashlib.sha256()
    for chunk in _chunks(path, renew):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(path: Path, renew: Callable[[], None]) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            renew()
            yield chunk
