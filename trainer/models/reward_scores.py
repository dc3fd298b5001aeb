"""Scores rendered trajectories with reward models, in batches, without gradients."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from trainer.rendering.chat import Rendered, runs_of_ones


def rewards_of(model: Any, chats: Sequence[Rendered], *, pad_id: int, batch_size: int) -> list[float]:
    """One reward per trajectory, read at its last token."""
    return [float(logits[0]) for logits in forward(model, chats, pad_id=pad_id, batch_size=batch_size)]


def step_scores(model: Any, chats: Sequence[Rendered], *, pad_id: int, batch_size: int) -> list[list[float]]:
    """P(good) - P(bad) at the end of each turn, -1 … 1."""
    return [
        (chances[:, 2] - chances[:, 0]).tolist()
        for chances in step_chances(model, chats, pad_id=pad_id, batch_size=batch_size)
    ]


def step_chances(model: Any, chats: Sequence[Rendered], *, pad_id: int, batch_size: int) -> list[torch.Tensor]:
    """For each trajectory (turns, 3): the probabilities that a turn is bad, neutral, good."""
    outputs = forward(model, chats, pad_id=pad_id, batch_size=batch_size)
    return [logits[step_ends(chat)].softmax(-1) for chat, logits in zip(chats, outputs, strict=True)]


def step_ends(chat: Rendered) -> list[int]:
    """The positions of the turns' scores: the last policy token of each turn."""
    return [turn.stop - 1 for turn in runs_of_ones(chat.mask)]


@torch.inference_mode()
def forward(model: Any, chats: Sequence[Rendered], *, pad_id: int, batch_size: int) -> Iterator[torch.Tensor]:
    """The model's logits for each trajectory, float32 on the CPU; for token classifiers, without padding."""
    waiting = iter(chats)
    while batch := list(islice(waiting, batch_size)):
        ids = pad_sequence([torch.tensor(chat.ids) for chat in batch], batch_first=True, padding_value=pad_id)
        attention = pad_sequence([torch.ones(len(chat.ids), dtype=torch.long) for chat in batch], batch_first=True)
        logits = model(
            input_ids=ids.to(model.device), attention_mask=attention.to(model.device), use_cache=False
        ).logits
        for chat, chat_logits in zip(batch, logits.float().cpu(), strict=True):
            yield chat_logits[: len(chat.ids)] if chat_logits.dim() > 1 else chat_logits
