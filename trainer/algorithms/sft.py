"""Supervised fine-tuning on demonstrations, over TRL's SFTTrainer.

Only the policy's tokens carry loss. With `model.scratch`, the model and its tokenizer are created here, from the demonstrations' text.
Left out: packing, weights, and any mixture with plain text.
"""

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.sft_config import SFTConfig as TrlSftConfig
from trl.trainer.sft_trainer import SFTTrainer

from contract.configs import ModelConfig, SftConfig
from trainer.algorithms.arguments import arguments_for, lora_for
from trainer.algorithms.row_order import order_of_rows
from trainer.algorithms.training_run import Fitting, TrainingRun
from trainer.events import EventLog
from trainer.interruption import StopRequest
from trainer.models.loader import load_policy, load_tokenizer
from trainer.models.scratch import CONTROL, MARKS, make_model, train_tokenizer
from trainer.rendering.chat import Rendered, render_completion, runs_of_ones
from trainer.rendering.refusals import Refusals
from trainer.rows import Demonstration, read_demonstrations

IGNORED = -100
"""The label of a token without loss."""


def train_sft(config: SftConfig, folder: Path, events: EventLog, stop: StopRequest) -> dict[str, Any]:
    """Train and return the report's figures. Raises Cancelled, RunFailure."""
    run = TrainingRun(config, folder, events, stop)
    demonstrations = read_demonstrations(folder / config.data.train)
    run.log(f"Preparing the model and {len(demonstrations)} demonstrations")
    model, tokenizer = prepare_model(run, config.model, demonstrations)
    fitting = tokenize(run, tokenizer, demonstrations, config.data.train)
    train = fitting.rows
    run.check_enough(len(train), left_out=f" ({fitting.too_long} too long)", shortest=fitting.shortest)
    validation: list[Rendered] = []
    if config.data.validation:
        validation = tokenize(
            run, tokenizer, read_demonstrations(folder / config.data.validation), config.data.validation
        ).rows
    arguments = arguments_for(config, folder, rows=len(train), has_validation=bool(validation))
    trainer = SFTTrainer(
        model=model,
        args=TrlSftConfig(train_sampling_strategy="sequential", **arguments),  # the order is already fixed
        train_dataset=sft_dataset(train).select(order_for(config, train, steps=arguments["max_steps"])),
        eval_dataset=sft_dataset(validation) if validation else None,
        processing_class=tokenizer,
        peft_config=lora_for(config.lora, task="CAUSAL_LM"),
        callbacks=[run.callback],
    )
    run.train(trainer)
    run.publish(trainer, tokenizer)
    counts = {
        "train": len(train),
        "validation": len(validation),
        "too_long": fitting.too_long,
        "refused": run.refused,
        "tokens": sum(len(chat.ids) for chat in train),
        "policy_tokens": sum(chat.policy_tokens for chat in train),
    }
    return {**run.figures(trainer), "rows": counts}


def order_for(config: SftConfig, rows: list[Rendered], *, steps: int) -> list[int]:
    """The rows of all steps of the run, in order."""
    optimizer = config.optimizer
    together = optimizer.batch_size * optimizer.gradient_accumulation * int(os.environ.get("WORLD_SIZE", "1"))
    return order_of_rows([len(row.ids) for row in rows], together=together, count=steps * together, seed=config.seed)


def prepare_model(
    run: TrainingRun, config: ModelConfig, demonstrations: list[Demonstration]
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    if config.scratch is None:
        tokenizer = load_tokenizer(config, run.folder)
        return load_policy(config, run.folder, run.weights_dtype(), **run.loading()), tokenizer
    fresh = train_tokenizer(texts_of(demonstrations), config.scratch.vocabulary)
    return make_model(config.scratch, fresh, run.config.seed), fresh


def texts_of(demonstrations: list[Demonstration]) -> Iterator[str]:
    """The demonstrations as rendered by the chat template, without special tokens."""
    blank = train_tokenizer([], 300)
    marks = re.compile("|".join(map(re.escape, CONTROL + MARKS)))

    def text_of(row: Demonstration) -> str:
        return str(blank.apply_chat_template(row.prompt + row.completion, tools=[*row.tools] or None, tokenize=False))

    for text in Refusals("").rendered(demonstrations, text_of):  # reported when the rows themselves are rendered
        yield from marks.split(text)


def tokenize(
    run: TrainingRun, tokenizer: PreTrainedTokenizerBase, rows: list[Demonstration], name: str
) -> Fitting[Rendered]:
    """Rows within max_length. Raises DataFailure."""
    run.warn_of_lost_reasoning(tokenizer, [row.completion for row in rows], name)
    rendered = run.rendered(rows, partial(rendered_demonstration, tokenizer), name)
    return run.fitting(rendered, [len(chat.ids) for chat in rendered], name)


def rendered_demonstration(tokenizer: PreTrainedTokenizerBase, row: Demonstration) -> Rendered:
    return only_turns(render_completion(tokenizer, row.prompt, row.completion, row.tools), row.train_turns)


def only_turns(rendered: Rendered, train: list[bool] | None) -> Rendered:
    """The loss mask without turns excluded from training."""
    if train is None:
        return rendered
    mask = [0] * len(rendered.mask)
    for turn, is_trained in zip(runs_of_ones(rendered.mask), train, strict=True):
        mask[turn.start : turn.stop] = [int(is_trained)] * len(turn)
    return Rendered(rendered.ids, mask)


def sft_dataset(rows: list[Rendered]) -> Dataset:
    """Columns: input_ids, labels."""
    return Dataset.from_dict(
        {
            "input_ids": [row.ids for row in rows],
            "labels": [
                [
                    token if is_policy_token else IGNORED
                    for token, is_policy_token in zip(row.ids, row.mask, strict=True)
                ]
                for row in rows
            ],
        }
    )
