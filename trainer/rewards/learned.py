"""Reward models as components: one scores whole trajectories, one scores turns."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase

from contract.configs.rewards import LearnedOutcomeTerm, LearnedProcessTerm
from contract.configs.training import ModelConfig
from contract.trajectory import Trajectory
from trainer.models.loader import compute_dtype, load_process_model, load_reward_model, load_tokenizer
from trainer.models.reward_scores import rewards_of, step_scores
from trainer.rendering.chat import Rendered, render_completion
from trainer.rewards.protocol import Score


class LearnedOutcome:
    """A Bradley-Terry reward r as 2σ(r) - 1: the probability of being preferred to a trajectory with reward 0, scaled to -1 … 1.

    Bounded, so that hacking the reward model gains at most its weight.
    """

    def __init__(self, term: LearnedOutcomeTerm, folder: Path) -> None:
        config = ModelConfig(path=term.path)
        self.term = term
        self.tokenizer = load_tokenizer(config, folder)
        pad = int(self.tokenizer.pad_token_id)
        self.model = ready(load_reward_model(config, folder, compute_dtype("auto"), pad))

    def score(self, trajectories: Sequence[Trajectory]) -> list[Score]:
        return scored_if_rendered(self.tokenizer, trajectories, self._scores)

    def _scores(self, prompts: list[Rendered]) -> list[Score]:
        pad = int(self.tokenizer.pad_token_id)
        rewards = rewards_of(self.model, prompts, pad_id=pad, batch_size=self.term.batch_size)
        return [Score(2 * torch.tensor(reward).sigmoid().item() - 1, details={"logit": reward}) for reward in rewards]


class LearnedProcess:
    """Each turn's P(good) - P(bad) by the process reward model."""

    def __init__(self, term: LearnedProcessTerm, folder: Path) -> None:
        config = ModelConfig(path=term.path)
        self.term = term
        self.tokenizer = load_tokenizer(config, folder)
        self.model = ready(load_process_model(config, folder, compute_dtype("auto")))

    def score(self, trajectories: Sequence[Trajectory]) -> list[Score]:
        return scored_if_rendered(self.tokenizer, trajectories, self._scores)

    def _scores(self, prompts: list[Rendered]) -> list[Score]:
        pad = int(self.tokenizer.pad_token_id)
        scores = step_scores(self.model, prompts, pad_id=pad, batch_size=self.term.batch_size)
        reduce = fmean if self.term.reduce == "mean" else min
        return [Score(reduce(turns), turns) for turns in scores]


def scored_if_rendered(
    tokenizer: PreTrainedTokenizerBase,
    trajectories: Sequence[Trajectory],
    scores_of: Callable[[list[Rendered]], list[Score]],
) -> list[Score]:
    """A score per trajectory, from one call for all that can be rendered; None for the others."""
    prompts = {
        index: prompt for index, trajectory in enumerate(trajectories) if (prompt := rendered(tokenizer, trajectory))
    }
    scored = dict(zip(prompts, scores_of(list(prompts.values())), strict=True))
    return [scored.get(index, Score(None)) for index in range(len(trajectories))]


def rendered(tokenizer: PreTrainedTokenizerBase, trajectory: Trajectory) -> Rendered | None:
    """None for a trajectory without turns, or one that the chat template refuses."""
    if not trajectory.steps:
        return None
    try:
        return render_completion(tokenizer, [], trajectory.chat(), trajectory.tools)
    except Exception:  # a template may raise anything: TemplateError, TypeError, …
        return None


def ready(model: Any) -> Any:
    """The model on the accelerator, if any, in eval mode and without gradients."""
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
