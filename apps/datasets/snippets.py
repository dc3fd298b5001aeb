"""What to paste in order to take a version out: for the shell and for Python."""

from __future__ import annotations

from typing import NamedTuple

from django.http import HttpRequest
from django.urls import reverse

from apps.datasets.models import Split, Version


class Snippet(NamedTuple):
    """A piece of code to copy."""

    id: str
    title: str
    text: str


def snippets(request: HttpRequest, version: Version) -> list[Snippet]:
    """Commands with this version's addresses; the token is the reader's to fill in."""
    address = request.build_absolute_uri(reverse("v1:rows", args=[version.dataset_id, version.number]))
    filled = [split.value for split in Split if version.row_counts.get(split.value)]
    first = filled[0] if filled else Split.TRAIN.value
    return [
        Snippet(
            "export-curl",
            "Shell",
            "export RETRACE_TOKEN=rt_…\n"
            + "\n".join(
                f'curl --fail --compressed -H "Authorization: Bearer $RETRACE_TOKEN" \\\n'
                f'  "{address}?format=jsonl&split={split}" -o {split}.jsonl'
                for split in filled
            ),
        ),
        Snippet(
            "export-python",
            "Python: load and train with TRL",
            f"""import os
import shutil
import urllib.request

from datasets import load_dataset
from trl import DPOConfig, DPOTrainer

request = urllib.request.Request(
    "{address}?format=parquet&split={first}",
    headers={{"Authorization": f"Bearer {{os.environ['RETRACE_TOKEN']}}"}},
)
with urllib.request.urlopen(request) as answer, open("{first}.parquet", "wb") as file:
    shutil.copyfileobj(answer, file)
rows = load_dataset("parquet", data_files="{first}.parquet", split="train")

trainer = DPOTrainer(model="Qwen/Qwen3-0.6B", args=DPOConfig(output_dir="dpo"), train_dataset=rows)
trainer.train()""",
        ),
        Snippet(
            "export-verify",
            "Check the hash by hand",
            "sha256sum train.jsonl validation.jsonl test.jsonl | sha256sum\n" + version.content_hash + "  -",
        ),
    ]
