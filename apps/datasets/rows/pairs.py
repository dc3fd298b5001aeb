"""Turns judged pairs into rows."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from hashlib import sha256
from itertools import chain
from typing import Any

from apps.datasets.files.splitfiles import Row
from apps.datasets.rows.divergence import NoTurn, SameTrajectories, Sides, Unusable
from apps.datasets.rows.materials import Files, Materials, Source
from apps.datasets.rows.pair_reader import PairMessages, PairReader, PairReaderProcess, PairRequest
from apps.datasets.rows.row_type import PairRule
from apps.datasets.selection.drops import Drop
from apps.datasets.selection.pairs import JudgedPair, judged_pairs
from apps.datasets.selection.votes import Verdict

PAIRS_AT_ONCE = 96
STEPS_AT_ONCE = 4096
"""Both limits bound the duration of a query, and so the time between renewals of the lease."""

WORTH_A_PROCESS = 4000
"""Number of rows from which a separate process pays off; starting one takes a second."""

DROPS = {SameTrajectories: Drop.SAME, NoTurn: Drop.NO_TURN}


class PairRows:
    """Writes a row for each verdict on a pair."""

    def __init__(self, materials: Materials, rule: PairRule) -> None:
        self.materials = materials
        self.rule = rule
        self.recipe = materials.recipe
        self.figures = materials.figures

    def write(self, files: Files, *, expected: int) -> Iterator[list[Source]]:
        """Write everything in small batches, yielding the judgments behind each. `expected`: approximate number of rows."""
        reader = PairReader(self.recipe.row_type, self.materials.keep_surrogates)
        with closing(_read(_chunks(self._usable()), reader, expected)) as pairs:
            for chunk, messages in pairs:
                yield list(self._write(chunk, messages, files))

    def _usable(self) -> Iterator[JudgedPair]:
        """Count every pair's votes; yield the pairs that may make a row."""
        for judged in judged_pairs(self.recipe, self.materials.version.workspace):
            self.figures.count_votes(judged.counted)
            if judged.decision.dropped:
                self.figures.dropped.update(judged.decision.dropped)
            if judged.decision.verdicts:
                yield judged

    def _write(self, chunk: list[JudgedPair], messages: Iterator[PairMessages], files: Files) -> Iterator[Source]:
        for judged, sides in zip(chunk, messages, strict=True):
            task = judged.pair.task.id
            split = self.materials.splits[task]
            for verdict, row in zip(judged.decision.verdicts, sides.rows, strict=True):
                if isinstance(row, Unusable):
                    self.figures.dropped[DROPS.get(type(row), Drop.NO_SHARED_START)] += 1
                    continue
                encoded = self._row(judged, verdict, row, sides.tools)
                number = files[split].add(encoded)
                self._count(judged, verdict, encoded.metadata, row, split.value)
                for vote in verdict.votes:
                    yield Source(task, split.value, number, preference=vote.preference)

    def _row(self, judged: JudgedPair, verdict: Verdict, sides: Sides, tools: tuple[bytes, bytes]) -> Row:
        pair = judged.pair
        chosen, rejected = (pair.first, pair.second) if verdict.first_won else (pair.second, pair.first)
        chosen_policy, rejected_policy = self._policies(judged, verdict)
        judgments = [vote.preference for vote in verdict.votes]
        metadata: dict[str, Any] = {
            "id": sha256(f"{chosen}{rejected}{''.join(judgments)}".encode()).hexdigest()[:16],
            "task": pair.task.key,
            "environment": pair.task.environment,
            "chosen_run": chosen,
            "rejected_run": rejected,
            "chosen_policy": chosen_policy,
            "rejected_policy": rejected_policy,
            **self.rule.metadata(verdict, sides),
            "annotators": [self.materials.labels[vote.annotator] for vote in verdict.votes],
            "judgments": judgments,
            "items": [str(item) for item in pair.items],
        }
        text = self.materials.tools_text(*(tools if verdict.first_won else reversed(tools)))
        return Row((sides.prompt, sides.chosen, sides.rejected), text, metadata)

    def _policies(self, judged: JudgedPair, verdict: Verdict) -> tuple[str, str]:
        """Names of the chosen and the rejected trajectory's policies."""
        names = [self.materials.name_of(policy) for policy in (judged.pair.first_policy, judged.pair.second_policy)]
        return (names[0], names[1]) if verdict.first_won else (names[1], names[0])

    def _count(self, judged: JudgedPair, verdict: Verdict, metadata: dict[str, Any], sides: Sides, split: str) -> None:
        self.figures.count_row(sides, judged.pair, split=split, policies=self._policies(judged, verdict))
        if contents := self.materials.row_type.contents:
            self.figures.kinds.update(contents(metadata))


def _read(
    chunks: Iterable[list[JudgedPair]], reader: PairReader, expected: int
) -> Generator[tuple[list[JudgedPair], Iterator[PairMessages]], None, None]:
    """Each chunk with the rows of its pairs. Large versions are read in a separate process, one chunk ahead."""
    if expected < WORTH_A_PROCESS:
        for chunk in chunks:
            with closing(reader.read([_request(judged) for judged in chunk])) as messages:
                yield chunk, messages
        return
    with closing(PairReaderProcess(reader)) as process:
        pending: list[JudgedPair] = []
        for chunk in chain(chunks, [[]]):
            process.ask([_request(judged) for judged in chunk])
            yield pending, process.answers(len(pending))
            pending = chunk


def _request(judged: JudgedPair) -> PairRequest:
    return PairRequest(
        judged.pair.first, judged.pair.second, tuple(verdict.first_won for verdict in judged.decision.verdicts)
    )


def _chunks(pairs: Iterable[JudgedPair]) -> Iterator[list[JudgedPair]]:
    chunk: list[JudgedPair] = []
    steps = 0
    for judged in pairs:
        chunk.append(judged)
        steps += judged.pair.first_steps + judged.pair.second_steps
        if len(chunk) >= PAIRS_AT_ONCE or steps >= STEPS_AT_ONCE:
            yield chunk
            chunk, steps = [], 0
    if chunk:
        yield chunk
