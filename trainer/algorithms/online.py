"""The common part of GRPO and RLOO: an online run over one of TRL's trainers.

TRL computes reward statistics, advantages, and losses. Rollouts are played here instead: TRL's RLOO has no tool loop, and in GRPO's, an
unparsable call ends the episode. So training and evaluation use exactly the same loop, for every algorithm and
environment. Left out: generation by vLLM, and sampling from weights sharded over devices.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from accelerate.utils import gather_object  # type: ignore[import-untyped]  # accelerate has no marker
from datasets import Dataset

from contract.configs import GrpoConfig, RlooConfig
from contract.events import Warned
from trainer.algorithms.arguments import common_arguments
from trainer.algorithms.best_weights import BestWeights
from trainer.algorithms.online_training import (
    Batch,
    KeptRollouts,
    RolloutSource,
    counts_of,
    figures_of,
    reward_details,
    training_figures,
)
from trainer.algorithms.packing import ReadsChats
from trainer.algorithms.padding import GroupsByLength
from trainer.algorithms.policy_rollouts import Attempt, Player
from trainer.algorithms.row_order import OrderOfEpoch
from trainer.algorithms.runner_rollouts import RunnerPlayer
from trainer.algorithms.token_rows import TokenRow, token_rows
from trainer.algorithms.training_run import TrainingRun
from trainer.events import EventLog
from trainer.failures import DataFailure
from trainer.interruption import StopRequest
from trainer.models.loader import load_policy, load_tokenizer
from trainer.rewards import rewards_for
from trainer.rollouts.output import successes_of

AnyOnline = GrpoConfig | RlooConfig
MakeTrainer = Callable[[AnyOnline, RolloutSource, dict[str, Any]], Any]
"""Builds the algorithm's trainer from the configuration, the rollout source, and the common trainer arguments."""


def train_online(
    config: AnyOnline, folder: Path, events: EventLog, stop: StopRequest, make_trainer: MakeTrainer
) -> dict[str, Any]:
    """Train and return the report's figures. Raises Cancelled, RunFailure."""
    run = TrainingRun(config, folder, events, stop)
    run.log(f"Loading {config.model.path}")
    tokenizer = load_tokenizer(config.model, folder)
    model: Any = load_policy(config.model, folder, run.weights_dtype(), **run.loading())
    player = (
        RunnerPlayer(model, tokenizer, config, stop, folder=folder, events=events)
        if config.played_by == "runners"
        else Player(model, tokenizer, config, stop)
    )
    rewards = rewards_for(config.rewards, folder, events)
    source = RolloutSource(config, folder, player, rewards, empty=tokenizer.pad_token_id)
    check_enough_tasks(config, source)
    best = BestWeights(folder)
    trainer = make_trainer(
        config,
        source,
        {
            "model": model,
            "processing_class": tokenizer,
            "train_dataset": Dataset.from_dict({"prompt": list(source.tasks)}),
            "eval_dataset": Dataset.from_dict({"prompt": [task.key for task in source.held_out]})
            if source.held_out
            else None,
            "callbacks": [run.callback, KeptRollouts(source), *([best] if config.keep_best else [])],
        },
    )
    trainer.eos_token_ids = sorted(player.ends)  # TRL counts a completion that ends otherwise as cut off
    run.train(trainer)
    kept_step = return_to_best(trainer, best, events) if config.keep_best else None
    run.publish(trainer, tokenizer)
    rollouts = rollouts_a_step(config) * trainer.state.global_step // config.updates
    return {**run.figures(trainer, kept_step=kept_step), "rollouts": rollouts, "tasks": len(source.tasks)}


def return_to_best(trainer: Any, best: BestWeights, events: EventLog) -> int | None:
    """Give the model the weights of the best evaluation, if those aren't the last; returns their step."""
    evaluation = best.evaluation
    if evaluation is None or evaluation.step == trainer.state.global_step or not trainer.is_world_process_zero():
        return None
    best.load_into(trainer.accelerator.unwrap_model(trainer.model))
    events.emit(
        Warned(
            f"The policy has the weights of step {evaluation.step}, whose evaluation was the best: it completed "
            f"{evaluation.success:.0%} of the held-out tasks.",
            advice="To publish the last weights instead, turn off “Keep the best weights”.",
        )
    )
    return evaluation.step


def trl_arguments(config: AnyOnline, source: RolloutSource, folder: Path) -> dict[str, Any]:
    """Keyword arguments common to TRL's two configs."""
    rows = len(source.tasks) * config.samples
    arguments = common_arguments(config, folder, rows=rows, has_validation=bool(source.held_out))
    return {
        **arguments,
        # A step may reuse the rollouts of the previous one, so runs are saved (and stopped) only where new rollouts are due.
        "save_steps": up_to_multiple(arguments["save_steps"], config.updates),
        "eval_steps": up_to_multiple(arguments["eval_steps"], config.updates),
        "num_generations": config.samples,
        "num_generations_eval": 1,
        "num_iterations": config.updates,
        "max_completion_length": config.sampling.max_new_tokens * config.budget.steps,
        "temperature": config.sampling.temperature,
        "beta": config.beta,
        "epsilon": config.epsilon,
        "epsilon_high": config.epsilon_high,
        "disable_dropout": True,
        # TRL loads the reference model with these; the policy is already loaded, and TRL warns that they don't apply to it.
        "model_init_kwargs": {
            "revision": config.model.revision or "main",
            "trust_remote_code": config.model.trust_remote_code,
        }
        if config.beta and not config.lora
        else None,
    }


def first_chat_of(row: TokenRow) -> list[int]:
    """The tokens of the row's first chat, prompt included."""
    return row.prompt + [token for token, chat in zip(row.completion, row.chats, strict=True) if chat == 0]


def up_to_multiple(number: int, of: int) -> int:
    """7, 2 -> 8"""
    return -(-number // of) * of


def check_enough_tasks(config: AnyOnline, source: RolloutSource) -> None:
    """Raises DataFailure if there are too few tasks for one step."""
    needed = rollouts_a_step(config) // config.samples
    if len(source.tasks) < needed:
        raise DataFailure(
            f"There are {len(source.tasks)} tasks to train on. Expected at least {needed}, enough for one step.",
            advice="Raise tasks.count, or lower optimizer.batch_size.",
        )


def rollouts_a_step(config: AnyOnline) -> int:
    """Rollouts per step and process."""
    return config.optimizer.batch_size * config.optimizer.gradient_accumulation


class LearnsFromRollouts(ReadsChats, GroupsByLength):
    """Mixin for TRL's online trainers: takes rollouts and evaluations from `online_training`."""

    source: RolloutSource
    accelerator: Any
    state: Any
    model: Any
    log: Any
    callback_handler: Any
    args: Any
    control: Any
    _metrics: Any

    def _get_train_sampler(self, dataset: Any = None) -> OrderOfEpoch:
        trl: Any = super()
        return OrderOfEpoch(trl._get_train_sampler(dataset), seed=self.args.seed)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        step = self.state.global_step + 1
        batch = self.source.play([row["prompt"] for row in inputs], step=step)
        self._chats = self.padded([row.chats for row in batch.rows])
        trl: Any = super()
        output: dict[str, Any] = trl._generate_and_score_completions(inputs)
        output["chats"] = self._chats
        self.credit(batch, output)
        for name, value in training_figures(batch).items():
            if name not in {"reward", "reward_std"}:  # computed by TRL
                self._metrics["train"][name].append(value)
        if self.accelerator.is_main_process:
            self.source.keep(step=step, advantages=[] if batch.turn_advantages else output["advantages"].tolist())
        return output

    def probes(self, count: int) -> list[list[int]]:
        """The tokens of a few attempts by the current policy, for the canary."""
        tasks = list(self.source.tasks.values())[:count]
        played = self.source.player.play([Attempt(task, 0) for task in tasks], moment="canary")
        return [first_chat_of(row) for row in token_rows(played, empty=self.source.empty)]

    def credit(self, batch: Batch, output: dict[str, Any]) -> None:
        """Hook for trainers that assign advantages differently from TRL."""

    def padded(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """(B, T): a number for each completion token, and 0 for padding."""
        tensors = [torch.tensor(row) for row in rows]
        return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True).to(self.accelerator.device)

    def evaluate(self, *_: object, **__: object) -> dict[str, float]:
        """Attempt the held-out tasks, divided among the processes."""
        rank, processes = self.accelerator.process_index, self.accelerator.num_processes
        step = self.state.global_step
        self.model.eval()  # the prefix by which TRL recognizes evaluation metrics
        rollouts = gather_object(self.source.evaluate(slice(rank, None, processes)))
        rewards = self.source.rewards.score(rollouts)
        figures = figures_of([counts_of(rollout) for rollout in rollouts], rewards)
        for level in sorted({rollout.task.difficulty for rollout in rollouts} - {""}):
            if successes := successes_of(rollout for rollout in rollouts if rollout.task.difficulty == level):
                figures[f"success/{level}"] = fmean(successes)
        metrics = {f"eval_{name}": float(value) for name, value in figures.items()}
        if self.accelerator.is_main_process:
            details = [(rollout, reward_details(reward)) for rollout, reward in zip(rollouts, rewards, strict=True)]
            self.source.write(f"evaluation-{step:06d}", details, step)
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        self.model.train()
        return metrics
