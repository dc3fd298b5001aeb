"""Runs the model on each chat of a packed row separately and without padding.

TRL pads all rollouts of an optimizer step to the longest of them, as one row each. Among agents' rollouts the longest is many times the
median (an episode that loops until its budget ends), so most of the input would be padding. And a row may hold several chats
(`token_rows`), of which none may attend to another. So forward passes get chats instead of rows, and the log-probabilities of their tokens are put
back to where TRL expects them.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch


class Span(NamedTuple):
    """Where a chat is in a batch of rows."""

    row: int
    first: int
    """Its first column."""
    scored_from: int
    """The first column whose log-probability is needed."""
    last: int
    """Its last column, plus one."""

    def __len__(self) -> int:
        return self.last - self.first


class ReadsChats:
    """Mixin for TRL's online trainers, for text-only chats."""

    _chats: torch.Tensor
    """(B, T): the chat of each completion token, as in `TokenRow.chats`."""

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        self._chats = inputs["chats"]
        trl: Any = super()
        loss: torch.Tensor = trl._compute_loss(model, inputs)
        return loss

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        **more: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """(B, P + T) tokens -> (B, T) log-probabilities and entropies of the last T, 0 for padding and for tokens before a later chat's first turn.

        Chats are padded on the right, so that their positions are those at which they were sampled. At most `batch_size` chats go into one pass.
        """
        trl: Any = super()
        prompt = input_ids.size(1) - logits_to_keep
        logps = torch.zeros(len(input_ids), logits_to_keep, device=input_ids.device)
        entropies = torch.zeros_like(logps) if more.get("compute_entropy") else None
        auxiliary = []
        spans = sorted(spans_of(attention_mask, self._chats), key=len)
        for start in range(0, len(spans), batch_size or len(spans)):
            chats = spans[start : start + (batch_size or len(spans))]
            width = max(map(len, chats))
            scored_width = width - min(chat.scored_from - chat.first for chat in chats)
            ids = input_ids.new_zeros(len(chats), width)
            attended = attention_mask.new_zeros(len(chats), width)
            for index, (row, first, _, last) in enumerate(chats):
                ids[index, : last - first] = input_ids[row, first:last]
                attended[index, : last - first] = 1
            outputs = trl._get_per_token_logps_and_entropies(model, ids, attended, scored_width, **more)
            for index, (row, first, begin, last) in enumerate(chats):
                target = slice(begin - prompt, last - prompt)
                source = slice(begin - first - width + scored_width, last - first - width + scored_width)
                logps[row, target] = outputs[0][index, source].to(logps.dtype)
                if entropies is not None:
                    entropies[row, target] = outputs[1][index, source].to(logps.dtype)
            auxiliary += [outputs[2]] if outputs[2] is not None else []
        return logps, entropies, torch.stack(auxiliary).mean() if auxiliary else None


def spans_of(attention_mask: torch.Tensor, chats: torch.Tensor) -> Iterator[Span]:
    """The chats of each row. attention_mask: (B, P + T), chats: (B, T)."""
    prompt = attention_mask.size(1) - chats.size(1)
    for row, (attended, numbers) in enumerate(zip(attention_mask.tolist(), chats.tolist(), strict=True)):
        columns = [column for column, is_attended in enumerate(attended) if is_attended]
        end = columns[-1] + 1
        first = columns[0]
        scored_from = prompt
        for column in range(prompt + 1, end):
            current, previous = numbers[column - prompt], numbers[column - prompt - 1]
            if abs(current) != abs(previous):
                yield Span(row, first, scored_from, column)
                first = scored_from = column
            elif current != previous:
                scored_from = column
        yield Span(row, first, scored_from, end)
