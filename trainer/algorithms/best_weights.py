"""The weights of the evaluation with the highest held-out success.

A policy that follows a learned reward too far succeeds less and less, so its last weights may be its worst (Gao, Schulman & Hilton, 2022, arXiv 2210.10760).
"""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from trainer.algorithms.atomic_folder import AtomicFolder

WEIGHTS, EVALUATION = "trained.safetensors", "evaluation.json"


class Evaluation(NamedTuple):
    """An evaluation after some training."""

    step: int
    success: float
    """Share of held-out tasks."""


class BestWeights(TrainerCallback):
    """Keeps the trained weights of the best evaluation so far in `best/`; of several equal ones, the latest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "best"

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Forget what an earlier attempt did after the checkpoint that this one resumes from."""
        best = self.evaluation
        if state.is_world_process_zero and best is not None and best.step > state.global_step:
            shutil.rmtree(self.folder)

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        success: float | None = kwargs["metrics"].get("eval_success")
        if success is None or not state.global_step or not state.is_world_process_zero:
            return
        new, best = Evaluation(state.global_step, success), self.evaluation
        if best is not None and best.success > new.success:
            return
        with AtomicFolder(self.folder) as folder:
            save_file(
                {name: weight.contiguous() for name, weight in trained(kwargs["model"]).items()}, folder / WEIGHTS
            )
            (folder / EVALUATION).write_text(json.dumps(new._asdict()))

    @property
    def evaluation(self) -> Evaluation | None:
        """The best evaluation so far."""
        try:
            return Evaluation(**json.loads((self.folder / EVALUATION).read_text()))
        except FileNotFoundError:
            return None

    def load_into(self, model: PreTrainedModel) -> None:
        """Replace the model's trained weights by the best ones."""
        weights = load_file(self.folder / WEIGHTS)
        with torch.no_grad():
            for name, weight in trained(model).items():
                weight.copy_(weights[name])


def trained(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """The weights that training changes, by name."""
    return {name: weight.data for name, weight in model.named_parameters() if weight.requires_grad}
