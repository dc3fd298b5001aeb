"""Code for downloading a version from the shell and from Python."""

from __future__ import annotations

from typing import NamedTuple

from django.http import HttpRequest
from django.urls import reverse

from apps.datasets.files.archive import PROCESS_LABELS, STEPWISE
from apps.datasets.models import Split, Version
from apps.datasets.rows import ROW_TYPES


class Snippet(NamedTuple):
    """A piece of code to copy."""

    id: str
    title: str
    text: str


OPTIONS = {"SFT": ", assistant_only_loss=True"}


def in_trl(row_type: str) -> tuple[str, str]:
    """The lines that import and use TRL's trainer for such rows; empty if it has none."""
    name = ROW_TYPES[row_type].trainer
    if not name:
        return "", ""
    arguments = f'{name}Config(output_dir="{name.lower()}"{OPTIONS.get(name, "")})'
    construction = f'trainer = {name}Trainer(model="Qwen/Qwen3-0.6B", args={arguments}, train_dataset=rows)'
    return f"from trl import {name}Config, {name}Trainer\n", f"\n{construction}\ntrainer.train()"


def _fetching(address: str, name: str) -> str:
    """One command that downloads all splits under their own names, including empty ones, since the version's hash covers all of them."""
    splits = ",".join(split.value for split in Split)
    return f'curl --fail --compressed -H "Authorization: Bearer $RETRACE_TOKEN" \\\n  "{address}&split={{{splits}}}" -o "{name}"'


def snippets(request: HttpRequest, version: Version) -> list[Snippet]:
    """Commands with this version's URLs; the reader fills in the token."""
    address = request.build_absolute_uri(reverse("v1:rows", args=[version.dataset_id, version.number]))
    filled = [split.value for split in Split if version.row_counts.get(split.value)]
    first = filled[0] if filled else Split.TRAIN.value
    imports, training = in_trl(version.row_type)
    return [
        Snippet(
            "export-curl",
            "Shell",
            "export RETRACE_TOKEN=rt_…\n" + _fetching(f"{address}?format=jsonl", "#1.jsonl"),
        ),
        *(
            [
                Snippet(
                    "export-stepwise",
                    "Shell: TRL's stepwise columns",
                    _fetching(f"{address}?format={STEPWISE}", "#1-stepwise.jsonl"),
                )
            ]
            if version.row_type == PROCESS_LABELS
            else []
        ),
        Snippet(
            "export-python",
            "Python: load and train with TRL" if training else "Python: load",
            f"""import os
import shutil
import urllib.request

from datasets import load_dataset
{imports}
request = urllib.request.Request(
    "{address}?format=parquet&split={first}",
    headers={{"Authorization": f"Bearer {{os.environ['RETRACE_TOKEN']}}"}},
)
with urllib.request.urlopen(request) as answer, open("{first}.parquet", "wb") as file:
    shutil.copyfileobj(answer, file)
rows = load_dataset("parquet", data_files="{first}.parquet", split="train")
{training}""",
        ),
        Snippet(
            "export-verify",
            "Check the hash by hand",
            "sha256sum train.jsonl validation.jsonl test.jsonl | sha256sum\n" + version.content_hash + "  -",
        ),
    ]
