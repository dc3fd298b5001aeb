"""Frozen versions with real files, made from rollouts of the office's scripts: an expert's are preferred over a careless worker's."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from apps.accounts.models import Workspace
from apps.common.ids import new_id
from apps.datasets.models import Version
from apps.policies.models import Policy
from tests import factories
from tests.trainer.runs import ROOT, write_run

SMALLEST = {"layers": 1, "hidden": 16, "intermediate": 32, "heads": 2, "vocabulary": 300}
"""A model that trains in seconds and learns nothing: these tests are about runs, not about learning."""


def office_pairs(folder: Path, count: int) -> list[dict[str, Any]]:
    """Preference rows from two scripts on the same tasks."""
    runs = {}
    for script in ("expert", "careless"):
        place = folder / script
        place.mkdir(parents=True)
        config = {
            "kind": "rollout",
            "policy": {"engine": "scripted", "script": script},
            "tasks": {"environment": "office", "split": "train", "count": count * 2, "levels": ["L1"]},
        }
        # In a separate process, since an event loop is running here under Playwright.
        subprocess.run([sys.executable, "-m", "trainer", str(write_run(place, config))], cwd=ROOT, check=True)
        lines = (place / "trajectories.jsonl").read_text().splitlines()
        runs[script] = {row["task"]["key"]: row for row in map(json.loads, lines)}
    rows = [_row(runs["expert"][key], runs["careless"][key]) for key in runs["expert"]]
    return [row for row in rows if row["chosen"] != row["rejected"]][:count]


def _row(better: dict[str, Any], worse: dict[str, Any]) -> dict[str, Any]:
    prompt = better["steps"][0]["context"]
    return {
        "prompt": prompt,
        "chosen": _messages(better)[len(prompt) :],
        "rejected": _messages(worse)[len(prompt) :],
        "tools": json.dumps(better["tools"]),
    }


def _messages(run: dict[str, Any]) -> list[dict[str, Any]]:
    return [message for step in run["steps"] for message in (*step["context"], step["message"])]


def freeze(rows: dict[str, list[dict[str, Any]]], *, of: Workspace, row_type: str = "preference") -> Version:
    """A frozen version whose files are in storage, as after freezing."""
    files = {}
    for split in ("train", "validation", "test"):
        body = "".join(json.dumps(row) + "\n" for row in rows.get(split, [])).encode()
        name = default_storage.save(f"datasets/{new_id()}/v1/{split}.jsonl", ContentFile(body))
        sha256 = hashlib.sha256(body).hexdigest()
        files[split] = {"name": name, "rows": len(rows.get(split, [])), "bytes": len(body), "sha256": sha256}
    counts = {split: facts["rows"] for split, facts in files.items()}
    return factories.dataset_version(of=of, files={"jsonl": files}, row_counts=counts, row_type=row_type)


def small_base(workspace: Workspace, model: Path) -> Policy:
    """A policy whose weights are in `model`."""
    return factories.policy(of=workspace, kind=Policy.Kind.MODEL, location=str(model))
