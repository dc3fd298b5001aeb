"""Two policies for publishing tests, really trained but as small as possible."""

import json
from pathlib import Path

from tests.trainer.policies import preference_rows, save_policy
from tests.trainer.runs import run_here
from trainer.failures import ExitCode


def train_two(home: Path) -> Path:
    """`base`; two LoRA runs that started from it, `one` and `two`; and `stranger`, an unrelated base."""
    save_policy(home / "base")
    save_policy(home / "stranger", seed=9)
    rows = preference_rows(16)
    for name, better, worse in (("one", "chosen", "rejected"), ("two", "rejected", "chosen")):
        (home / name).mkdir()
        lines = [json.dumps({**row, "chosen": row[better], "rejected": row[worse]}) for row in rows]
        (home / name / "rows.jsonl").write_text("\n".join(lines))
        config = {
            "kind": "dpo",
            "model": {"path": "../base"},
            "data": {"train": "rows.jsonl"},
            "lora": {"rank": 4},
            "optimizer": {"learning_rate": 1e-2, "batch_size": 4, "max_steps": 4},
        }
        assert run_here(home / name, config) == ExitCode.FINISHED
    return home
