"""Scores a few of a run's own rows before and after training, for the canary."""

from dataclasses import replace
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, Trainer

from trainer.canary import Canary

PROBES = 6
PROBE_TOKENS = 96
"""Tokens per probe, taken from the ends of rows, where policies differ."""
ID_COLUMNS = ("input_ids", "chosen_ids", "prompt_ids")


class Probing:
    """Construct it before training, and call `end` after."""

    def __init__(self, trainer: Trainer) -> None:
        trainer_probes = getattr(trainer, "probes", None)  # online trainers have tasks instead of rows, and play a few
        self.probes = (
            cut(trainer_probes(PROBES))
            if trainer_probes
            else probes_of(trainer.train_dataset, trainer.processing_class)
        )
        self.base = token_logprobs(trainer.model, self.probes)

    def end(self, model: PreTrainedModel) -> Canary:
        return Canary(self.probes, policy=token_logprobs(model, self.probes), base=self.base)

    def end_merged(self, canary: Canary, model: PreTrainedModel) -> Canary:
        """Add the log-probabilities of the unquantized merged model, which is published if the policy was trained with 4-bit weights."""
        return replace(canary, merged=token_logprobs(model, self.probes))


def can_probe(trainer: Trainer) -> bool:
    """Whether the model predicts tokens (reward models don't) and this process holds all of it."""
    sharded = trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled
    model: Any = trainer.model
    return not sharded and model.get_output_embeddings() is not None and trainer.is_world_process_zero()


def probes_of(dataset: Any, tokenizer: Any) -> list[list[int]]:
    """Token ids of a few rows, evenly spread over the dataset."""
    count = len(dataset)
    rows = [dataset[index * count // PROBES] for index in range(PROBES)] if count > PROBES else list(dataset)
    return cut([ids_of(row, tokenizer) for row in rows])


def cut(rows: list[list[int]]) -> list[list[int]]:
    return [ids[-PROBE_TOKENS:] for ids in rows if len(ids) > 1]


def ids_of(row: dict[str, Any], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """A row's tokens if it has them, otherwise those of its prompt."""
    for column in ID_COLUMNS:
        if row.get(column) is not None:
            return list(row[column])
    prompt = row["prompt"]
    if isinstance(prompt, str):
        return list(tokenizer(prompt)["input_ids"])
    encoded: Any = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True)
    return list(encoded["input_ids"])


@torch.inference_mode()
def token_logprobs(model: Any, probes: list[list[int]]) -> list[list[float]]:
    """The log-probability (nats, float32) of each token given those before it; the first of each probe has none."""
    was_training = model.training
    model.eval()
    scores = []
    for ids in probes:
        tokens = torch.tensor([ids], device=model.device)
        logprobs = model(input_ids=tokens).logits[0, :-1].float().log_softmax(-1)
        scores.append([round(value, 5) for value in logprobs.gather(1, tokens[0, 1:, None]).squeeze(1).tolist()])
    model.train(was_training)
    return scores
