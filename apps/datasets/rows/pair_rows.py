"""From judged pairs to preference rows, or to step preferences where the two runs part."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from hashlib import sha256
from itertools import chain
from typing import Any

from apps.datasets.figures import votes_of
from apps.datasets.files.splitfiles import Row
from apps.datasets.rows.cutting import Cut, Cutter, Wanted
from apps.datasets.rows.cutting_process import CuttingProcess
from apps.datasets.rows.materials import Files, Materials, Source
from apps.datasets.rows.preference import NoTurn, SameRuns, Sides, Unusable
from apps.datasets.selection.selecting import JudgedPair, judged_pairs
from apps.datasets.selection.verdicts import Drop, Verdict

PAIRS_AT_ONCE = 96
STEPS_AT_ONCE = 4096
"""Both bound how long one query runs, and with it how long the lease goes without being renewed."""

WORTH_A_PROCESS = 4000
"""Rows: a process of its own takes a second to start."""

DECIMALS = 6
"""Of likelihoods: what two machines may differ in beyond that must not change a version's hash."""

DROPS = {SameRuns: Drop.SAME, NoTurn: Drop.NO_TURN}


class PairRows:
    """Writes a row for each verdict on a pair."""

    def __init__(self, materials: Materials) -> None:
        self.materials = materials
        self.recipe = materials.recipe
        self.figures = materials.figures
        self.by_step = self.recipe.row_type == "step_preferences"

    def write(self, files: Files, *, expected: int) -> Iterator[list[Source]]:
        """Write everything, a few rows at a time; answers what went into them. `expected`: rows, about."""
        cutter = Cutter(self.by_step, self.materials.keep_surrogates)
        with closing(_cut(_chunks(self._usable()), cutter, expected)) as pairs:
            for chunk, cuts in pairs:
                yield list(self._write(chunk, cuts, files))

    def _usable(self) -> Iterator[JudgedPair]:
        """Count every pair's votes; pass on those pairs that may make a row."""
        for judged in judged_pairs(self.recipe, self.materials.version.workspace):
            self.figures.count_votes(judged.counted)
            if judged.decision.dropped:
                self.figures.dropped.update(judged.decision.dropped)
            if judged.decision.verdicts:
                yield judged

    def _write(self, chunk: list[JudgedPair], cuts: Iterator[Cut], files: Files) -> Iterator[Source]:
        for judged, cut in zip(chunk, cuts, strict=True):
            task = judged.pair.task.id
            split = self.materials.splits[task]
            for verdict, row in zip(judged.decision.verdicts, cut.rows, strict=True):
                if isinstance(row, Unusable):
                    self.figures.dropped[DROPS.get(type(row), Drop.NO_SHARED_START)] += 1
                    continue
                number = files[split].add(self._row(judged, verdict, row, cut.tools))
                self._count(judged, verdict, row, split.value)
                for vote in verdict.votes:
                    yield Source(task, split.value, number, preference=vote.preference)

    def _row(self, judged: JudgedPair, verdict: Verdict, cut: Sides, tools: tuple[bytes, bytes]) -> Row:
        pair = judged.pair
        chosen, rejected = (pair.first, pair.second) if verdict.first_won else (pair.second, pair.first)
        chosen_policy, rejected_policy = self._policies(judged, verdict)
        judgements = [vote.preference for vote in verdict.votes]
        about: dict[str, Any] = {
            "id": sha256(f"{chosen}{rejected}{''.join(judgements)}".encode()).hexdigest()[:16],
            "task": pair.task.key,
            "environment": pair.task.environment,
            "chosen_run": chosen,
            "rejected_run": rejected,
            "chosen_policy": chosen_policy,
            "rejected_policy": rejected_policy,
            **(self._about_step(verdict, cut) if self.by_step else _about_pair(verdict)),
            "annotators": [self.materials.labels[vote.annotator] for vote in verdict.votes],
            "judgements": judgements,
            "items": [str(item) for item in pair.items],
        }
        text = self.materials.tools_text(*(tools if verdict.first_won else reversed(tools)))
        return Row((cut.prompt, cut.chosen, cut.rejected), text, about)

    def _about_step(self, verdict: Verdict, cut: Sides) -> dict[str, Any]:
        return {"origin": "divergence", "weight": verdict.weight, "step": cut.shared_turns}

    def _policies(self, judged: JudgedPair, verdict: Verdict) -> tuple[str, str]:
        """Names of the chosen and the rejected run's policies."""
        names = [self.materials.name_of(policy) for policy in (judged.pair.first_policy, judged.pair.second_policy)]
        return (names[0], names[1]) if verdict.first_won else (names[1], names[0])

    def _count(self, judged: JudgedPair, verdict: Verdict, cut: Sides, split: str) -> None:
        task = judged.pair.task
        policies = self._policies(judged, verdict)
        self.figures.count_row(cut, split=split, task=task.id, environment=task.environment, policies=policies)
        if self.by_step:
            self.figures.kinds["divergence"] += 1


def _about_pair(verdict: Verdict) -> dict[str, Any]:
    votes_for, votes_against, votes_tied = votes_of(verdict)
    return {
        "adjudication": str(verdict.ruling or ""),
        "strength": verdict.strength,
        "weight": verdict.weight,
        "soft_label": round(verdict.soft_label, DECIMALS),
        "label_weight": round(verdict.label_weight, DECIMALS),
        "shown_left": round(verdict.shown_left, DECIMALS),
        "votes_for": votes_for,
        "votes_against": votes_against,
        "votes_tied": votes_tied,
    }


def _cut(
    chunks: Iterable[list[JudgedPair]], cutter: Cutter, expected: int
) -> Generator[tuple[list[JudgedPair], Iterator[Cut]], None, None]:
    """Each chunk with what its pairs come to. Much is cut by a process of its own, one chunk ahead."""
    if expected < WORTH_A_PROCESS:
        for chunk in chunks:
            yield chunk, cutter.cut([_wanted(judged) for judged in chunk])
        return
    with closing(CuttingProcess(cutter)) as process:
        asked: list[JudgedPair] = []
        for chunk in chain(chunks, [[]]):
            process.ask([_wanted(judged) for judged in chunk])
            yield asked, process.answers(len(asked))
            asked = chunk


def _wanted(judged: JudgedPair) -> Wanted:
    return Wanted(
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
