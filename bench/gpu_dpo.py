"""DPO on a GPU: tokens per second and peak memory, compared with plain TRL's DPOTrainer on the same rows."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.gpu import SHAPES, TEXT, Shape, Side, bare, compare, finish_bare, make_policy, ours


def rows_of(shape: Shape) -> list[dict[str, Any]]:
    """Pairs with different sides of about `row_tokens` each."""
    content = TEXT * max(1, shape.row_tokens // 20)
    ask = [{"role": "user", "content": TEXT}]
    return [
        {
            "prompt": ask,
            "chosen": [{"role": "assistant", "content": f"{number} {content}"}],
            "rejected": [{"role": "assistant", "content": f"{content} {number}"}],
        }
        for number in range(shape.batch * shape.steps)
    ]


def both(name: str, work_folder: Path) -> tuple[Side, Side]:
    """Run both sides, one after the other, each alone on the device."""
    shape = SHAPES[name]
    make_policy(shape, work_folder / "base")
    (work_folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows_of(shape)))
    config = {
        "kind": "dpo",
        "model": {"path": "../base"},
        "data": {"train": "../rows.jsonl"},
        "optimizer": {
            "batch_size": shape.batch,
            "max_steps": shape.steps,
            "learning_rate": 1e-6,
            "max_length": 4096,
            "gradient_checkpointing": name != "tiny",
        },
        "checkpoints": {"every": 10_000},
    }
    plain = bare("bench.gpu_dpo", name, work_folder)

    def tokens_a_step(folder: Path) -> float:
        rows = json.loads((folder / "report.json").read_text())["rows"]
        return float(rows["tokens"] / rows["train"] * shape.batch)

    ours_ = ours(config, work_folder / "run", tokens_a_step=tokens_a_step)
    return ours_, plain._replace(tokens_a_step=ours_.tokens_a_step)  # the same rows with the same template


def train_bare(name: str, folder: Path) -> None:
    """Train as in TRL's documentation."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl.trainer.dpo_config import DPOConfig
    from trl.trainer.dpo_trainer import DPOTrainer

    shape, ends = SHAPES[name], []
    on_gpu = torch.cuda.is_available()

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ends.append(time.time())

    DPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder / "base", dtype=torch.float32),
        ref_model=AutoModelForCausalLM.from_pretrained(folder / "base"),
        args=DPOConfig(
            output_dir=str(folder / "bare"),
            per_device_train_batch_size=shape.batch,
            max_steps=shape.steps,
            learning_rate=1e-6,
            max_length=None,
            bf16=on_gpu,
            use_cpu=not on_gpu,
            gradient_checkpointing=name != "tiny",
            logging_steps=1,
            save_strategy="no",
            report_to=[],
        ),
        train_dataset=Dataset.from_list(rows_of(shape)),
        processing_class=AutoTokenizer.from_pretrained(folder / "base"),
        callbacks=[Clock()],
    ).train()
    finish_bare(ends, 0.0, folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bare"]:
        train_bare(sys.argv[2], Path(sys.argv[3]))
    else:
        compare("gpu_dpo", sys.argv[1:], both)
