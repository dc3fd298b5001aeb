"""Reads a run's data files, reports skipped rows, and refuses files with too few."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from contract.configs import FileTrainingConfig
from contract.events import Warned
from contract.messages import is_turn
from contract.rows import PreferenceRow
from trainer.algorithms.preferences import Pair, TokenizedPairs, rendered_pair, usable
from trainer.algorithms.training_run import TrainingRun
from trainer.rows import read_preferences

Cut = Callable[[PreferenceRow], PreferenceRow | None]
"""What an algorithm uses of a row; None skips it."""


class PairData(NamedTuple):
    """The pairs of a run, with counts of skipped rows."""

    train: list[Pair]
    validation: list[Pair]
    counts: dict[str, int]


def unchanged(row: PreferenceRow) -> PreferenceRow:
    return row


def without_ties(row: PreferenceRow) -> PreferenceRow | None:
    return None if row.tie else row


def first_turns(row: PreferenceRow) -> PreferenceRow | None:
    """The row as a step preference: each side's first turn. None for ties, and if the sides first differ in context rather than in a turn."""
    if row.tie or not (is_turn(row.chosen[0]) and is_turn(row.rejected[0])):
        return None
    return replace(row, chosen=row.chosen[:1], rejected=row.rejected[:1])


def read_pairs(run: TrainingRun, tokenizer: PreTrainedTokenizerBase, *, cut: Cut = unchanged) -> PairData:
    """Training and validation pairs. Raises DataFailure."""
    assert isinstance(run.config, FileTrainingConfig)
    files = run.config.data
    train = tokenize_pairs(run, tokenizer, files.train, cut)
    left_out = f" ({train.too_long} too long, {train.identical} with two equal sides)"
    run.check_enough(len(train.pairs), left_out=left_out, shortest=train.shortest)
    validation = (
        tokenize_pairs(run, tokenizer, files.validation, cut) if files.validation else TokenizedPairs([], 0, 0, 0)
    )
    policy_tokens = sum(pair.chosen.policy_tokens + pair.rejected.policy_tokens for pair in train.pairs)
    return PairData(
        train.pairs,
        validation.pairs,
        {
            "train": len(train.pairs),
            "validation": len(validation.pairs),
            "too_long": train.too_long + validation.too_long,
            "identical": train.identical + validation.identical,
            "refused": run.refused,
            "tokens": sum(len(pair.chosen.ids) + len(pair.rejected.ids) for pair in train.pairs),
            "policy_tokens": policy_tokens,
        },
    )


def tokenize_pairs(run: TrainingRun, tokenizer: PreTrainedTokenizerBase, name: str, cut: Cut) -> TokenizedPairs:
    path: Path = run.folder / name
    all_rows = read_preferences(path)
    rows = [row for full_row in all_rows if (row := cut(full_row))]
    run.log(f"Rendering {len(rows)} rows of {path.name}")
    if len(rows) < len(all_rows):
        run.events.emit(
            Warned(f"{path.name}: left out {len(all_rows) - len(rows)} rows in which no turn is preferred.")
        )
    run.warn_of_lost_reasoning(tokenizer, [[*row.chosen, *row.rejected] for row in rows], path.name)
    pairs = run.rendered(rows, partial(rendered_pair, tokenizer), path.name)
    result = usable(pairs, max_length=run.config.optimizer.max_length)
    if result.too_long or result.identical:
        run.events.emit(
            Warned(
                f"{path.name}: left out {result.too_long} rows longer than {run.config.optimizer.max_length} tokens "
                f"and {result.identical} rows with two equal sides.",
                advice="Raise optimizer.max_length to use the long ones.",
            )
        )
    return result
