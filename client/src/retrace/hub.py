"""Pushes a frozen version to a dataset hub: verified files in one commit, with a tag.

Run on the client instead of the server, so that the hub token and the network are those of the person who pushes.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple, get_args

from retrace.core.flow import Flow, work
from retrace.core.request import OnProgress
from retrace.core.retries import Retries
from retrace.errors import RetraceError
from retrace.export import export_rows
from retrace.models.datasets import Version
from retrace.resources.datasets import Split

FORMAT = "parquet"
MANIFEST = "retrace.json"


class Pushed(NamedTuple):
    """The location of a version on a hub."""

    url: str
    """URL of the commit."""
    commit: str
    tag: str
    """The version's number and the beginning of its content hash."""


def push_version(
    version: Version,
    repository: str,
    readme: str,
    *,
    is_private: bool,
    endpoint: str | None,
    retries: Retries,
    progress: OnProgress | None,
) -> Flow[Pushed]:
    """Create the repository if necessary, and commit the version. Idempotent."""
    api = _api(endpoint)
    names = [split for split in get_args(Split) if version.row_counts.get(split)]
    if not names and version.is_over and not version.problem:
        raise RetraceError(f"Version {version.number} has no rows, so there is nothing to push.")
    with tempfile.TemporaryDirectory(prefix="retrace-push-") as temporary:
        folder = Path(temporary)
        for split in names or ["train"]:  # for an unfrozen version, raises the reason why it has no files
            file = folder / f"{split}.{FORMAT}"
            yield from export_rows(version, split, FORMAT, file, retries=retries, progress=progress)
        yield from work(lambda: (folder / "README.md").write_text(readme, encoding="utf-8"))
        yield from work(lambda: (folder / MANIFEST).write_text(_manifest(version), encoding="utf-8"))
        return (yield from work(lambda: _upload(api, version, repository, folder, is_private=is_private)))


def _api(endpoint: str | None) -> Any:
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        raise RetraceError("push needs the package huggingface_hub: pip install 'retrace-client[hub]'") from error
    return HfApi(endpoint=endpoint)


def _manifest(version: Version) -> str:
    """The version's metadata and file hashes, for verification."""
    metadata = version.model_dump(mode="json", include={"id", "dataset", "number", "row_type", "content_hash", "files"})
    return json.dumps(metadata, indent=2, sort_keys=True) + "\n"


def _upload(api: Any, version: Version, repository: str, folder: Path, *, is_private: bool) -> Pushed:
    tag = f"v{version.number}-{version.content_hash[:12]}"
    try:
        api.create_repo(repository, repo_type="dataset", private=is_private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repository,
            repo_type="dataset",
            folder_path=folder,
            commit_message=f"Version {version.number} ({version.content_hash})",
            # Splits of an earlier version. A repository may have other Parquet files.
            delete_patterns=[f"{split}.{FORMAT}" for split in get_args(Split)],
        )
        api.create_tag(repository, repo_type="dataset", tag=tag, revision=commit.oid, exist_ok=True)
    except Exception as error:  # from whichever HTTP library the installed huggingface_hub uses
        message = " ".join(str(error).split()).rstrip(".")
        raise RetraceError(
            f"The hub at {api.endpoint} didn't take {repository}: {message}. "
            "Log in with `hf auth login` or set HF_TOKEN; HF_ENDPOINT names another hub."
        ) from error
    return Pushed(commit.commit_url, commit.oid, tag)
