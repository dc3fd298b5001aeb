"""GRPO on a GPU: generated tokens per second and peak memory, compared with plain TRL's GRPOTrainer.

One turn per episode (environment `qa`), so that both generate and train on the same number of tokens; both generate with transformers.
"""

import sys
import time
from pathlib import Path
from statistics import fmean
from typing import Any

from bench.gpu import SHAPES, TEXT, Side, bare, compare, finish_bare, make_policy, ours
from contract.events import EventReader, Metrics

SAMPLES = 4
LENGTH = "completions/mean_length"


def both(name: str, work_folder: Path) -> tuple[Side, Side]:
    """Run both sides, one after the other, each alone on the device."""
    shape = SHAPES[name]
    make_policy(shape, work_folder / "base")
    config = {
        "kind": "grpo",
        "model": {"path": "../base"},
        "optimizer": {
            "batch_size": shape.batch,
            "max_steps": shape.steps,
            "learning_rate": 1e-6,
            "gradient_checkpointing": name != "tiny",
        },
        "tasks": {"environment": "qa", "count": 200},
        "samples": SAMPLES,
        "sampling": {"max_new_tokens": shape.row_tokens // 4},
        "held_out": 0,
        "kept": 0,
        "checkpoints": {"every": 10_000},
    }

    def tokens_a_step(folder: Path) -> float:
        events = EventReader(folder / "events.jsonl").new_events()
        lengths = [line.event.values.get(LENGTH) for line in events if isinstance(line.event, Metrics)]
        return shape.batch * fmean(length for length in lengths if length is not None)

    plain = bare("bench.gpu_grpo", name, work_folder)
    return ours(config, work_folder / "run", tokens_a_step=tokens_a_step), plain


def train_bare(name: str, folder: Path) -> None:
    """Train as in TRL's documentation, with a trivial reward."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    shape, ends = SHAPES[name], []
    on_gpu = torch.cuda.is_available()

    class Clock(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ends.append(time.time())

    def length(completions: list[Any], **_: Any) -> list[float]:
        return [float(len(str(completion)) % 7) for completion in completions]

    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder / "base", dtype=torch.float32),
        reward_funcs=[length],
        args=GRPOConfig(
            output_dir=str(folder / "bare"),
            per_device_train_batch_size=shape.batch,
            num_generations=SAMPLES,
            max_completion_length=shape.row_tokens // 4,
            max_steps=shape.steps,
            learning_rate=1e-6,
            beta=0.0,
            bf16=on_gpu,
            use_cpu=not on_gpu,
            gradient_checkpointing=name != "tiny",
            logging_steps=1,
            save_strategy="no",
            report_to=[],
        ),
        train_dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": TEXT}]}] * 200),
        processing_class=AutoTokenizer.from_pretrained(folder / "base"),
        callbacks=[Clock()],
    )
    trainer.train()
    lengths = [entry[LENGTH] for entry in trainer.state.log_history if LENGTH in entry]
    finish_bare(ends, shape.batch * fmean(lengths), folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bare"]:
        train_bare(sys.argv[2], Path(sys.argv[3]))
    else:
        compare("gpu_grpo", sys.argv[1:], both)
