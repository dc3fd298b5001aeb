"""Converts a run's configuration to arguments of TRL and PEFT."""

import os
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig as PeftLoraConfig

from contract.configs import LoraConfig, TrainingConfig
from trainer.models.loader import compute_dtype


def arguments_for(config: TrainingConfig, folder: Path, *, rows: int, has_validation: bool) -> dict[str, Any]:
    """Keyword arguments common to every TRL config."""
    common = common_arguments(config, folder, rows=rows, has_validation=has_validation)
    return {**common, "max_length": None}  # rows that are too long were already skipped; none is truncated


def common_arguments(config: TrainingConfig, folder: Path, *, rows: int, has_validation: bool) -> dict[str, Any]:
    """Keyword arguments of transformers' TrainingArguments, and so of every TRL config."""
    optimizer = config.optimizer
    total = config.steps(rows, processes=int(os.environ.get("WORLD_SIZE", "1")))
    evaluate_every = config.evaluate_every or max(1, total // 10)
    on_gpu = torch.cuda.is_available()
    return {
        "output_dir": str(folder / "checkpoints"),
        "learning_rate": optimizer.learning_rate,
        "per_device_train_batch_size": optimizer.batch_size,
        "per_device_eval_batch_size": optimizer.batch_size,
        "gradient_accumulation_steps": optimizer.gradient_accumulation,
        "max_steps": total,
        "lr_scheduler_type": optimizer.schedule,
        "warmup_steps": optimizer.warmup_steps,
        "weight_decay": optimizer.weight_decay,
        "max_grad_norm": optimizer.max_grad_norm,
        "gradient_checkpointing": optimizer.gradient_checkpointing,
        "bf16": compute_dtype(optimizer.precision) == torch.bfloat16,
        "use_cpu": not on_gpu,
        "dataloader_pin_memory": on_gpu,
        "eval_strategy": "steps" if has_validation else "no",
        "eval_steps": evaluate_every,
        "eval_on_start": has_validation,
        "logging_strategy": "steps",
        "logging_steps": config.log_every,
        "logging_first_step": True,
        "logging_nan_inf_filter": False,  # it would log the mean of earlier losses in place of NaN, and no alarm would be raised
        "save_strategy": "steps",
        "save_steps": config.checkpoints.every,
        "save_total_limit": None,  # done by `remove_old`: TRL would delete the last complete one before the next is complete
        "remove_unused_columns": False,
        "disable_tqdm": True,
        "report_to": [],
        "seed": config.seed,
        "data_seed": config.seed,
    }


def lora_for(lora: LoraConfig | None, *, task: str, full_modules: tuple[str, ...] = ()) -> PeftLoraConfig | None:
    """PEFT's configuration; `full_modules` names layers that are fully trained and saved, such as a new reward head."""
    if lora is None:
        return None
    return PeftLoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]  # PEFT divides it by the rank; any number does
        lora_dropout=lora.dropout,
        target_modules=lora.targets[0] if lora.targets == ("all-linear",) else list(lora.targets),
        modules_to_save=list(full_modules) or None,
        task_type=task,
    )
