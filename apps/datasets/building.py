"""From judgements and steps to files, figures and sources. Reads the database in streams; memory holds one row at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from apps.datasets import chats, splitting
from apps.datasets.figures import Figures, votes_of
from apps.datasets.models import Split, Version, VersionPreference
from apps.datasets.people import label
from apps.datasets.recipe import Recipe
from apps.datasets.rows.preference import SameRuns, Sides, Turn, Unusable, encode_tools, read_turn, sides
from apps.datasets.selecting import JudgedPair, annotators_of, judged_pairs, survey
from apps.datasets.splitfiles import FileFacts, Row, SplitFiles
from apps.datasets.verdicts import Drop, Verdict
from apps.policies.models import Policy
from apps.trajectories import jsontext

PAIRS_AT_ONCE = 256
STEPS_AT_ONCE = 4096
"""Both bound how long one query runs, and with it how long the lease goes without being renewed."""

DECIMALS = 6
"""Of likelihoods: what two machines may differ in beyond that must not change a version's hash."""

SOURCES_AT_ONCE = 4000
"""A commit waits for the disk, so there are few."""

Source = tuple[UUID, UUID, UUID, str, int]
"""A row of VersionPreference: version, preference, task, split, row."""


class Built(NamedTuple):
    """A version's finished files, still in the attempt's own folder, and its figures."""

    files: dict[Split, dict[str, FileFacts]]
    figures: Figures


class Builder:
    """One pass over everything that a version's recipe lets in."""

    def __init__(self, version: Version, folder: Path, *, progress: Callable[[int, int], None]) -> None:
        self.version = version
        self.recipe = Recipe.from_json(version.recipe)
        self.folder = folder
        self.progress = progress
        self.figures = Figures()
        self.keep_surrogates = self.recipe.surrogates == "keep"
        self.labels = {key: label(who) for key, who in annotators_of(self.recipe, version.workspace).items()}
        self.policies = dict(Policy.objects.filter(workspace=version.workspace).values_list("pk", "name"))
        self.splits: dict[UUID, Split] = {}
        self._tools: dict[tuple[bytes, bytes], bytes] = {}

    def build(self) -> Built:
        """Settle the splits, then write every row. What an attempt before this one recorded is replaced."""
        VersionPreference.objects.filter(version=self.version).delete()
        found = survey(self.recipe, self.version.workspace)
        self.progress(0, found.rows)
        self.splits = splitting.settle(
            [entry.task for entry in found.tasks.values()],
            workspace=self.version.workspace,
            shares=self.recipe.shares,
            seed=self.recipe.seed,
        )
        with ExitStack() as stack:
            files = {split: SplitFiles(self.folder, split) for split in Split}
            for writer in files.values():
                stack.callback(writer.close)
            sources: list[Source] = []
            for chunk in _chunks(self._usable()):
                sources += self._write(chunk, files)
                if len(sources) >= SOURCES_AT_ONCE:
                    _record(sources)
                    sources = []
                self.progress(sum(self.figures.rows.values()), found.rows)
            _record(sources)
            return Built({split: writer.finish() for split, writer in files.items()}, self.figures)

    def _usable(self) -> Iterator[JudgedPair]:
        """Count every pair's votes; pass on those pairs that may make a row."""
        for judged in judged_pairs(self.recipe, self.version.workspace):
            self.figures.count_votes(judged.counted)
            self.figures.dropped.update(judged.decision.dropped)
            if judged.decision.verdicts:
                yield judged

    def _write(self, chunk: list[JudgedPair], files: dict[Split, SplitFiles]) -> Iterator[Source]:
        runs = [run for judged in chunk for run in (judged.pair.first, judged.pair.second)]
        tools = chats.tools_of(runs)
        steps = chats.read(runs)
        for judged in chunk:
            pair = judged.pair
            first, second = self._turns(next(steps)), self._turns(next(steps))
            split = self.splits[pair.task.id]
            for verdict in judged.decision.verdicts:
                try:
                    cut = sides(first, second) if verdict.first_won else sides(second, first)
                except Unusable as refusal:
                    self.figures.dropped[Drop.SAME if isinstance(refusal, SameRuns) else Drop.NO_SHARED_START] += 1
                    continue
                number = files[split].add(self._row(judged, verdict, cut, tools))
                self._count(judged, verdict, cut, split)
                for vote in verdict.votes:
                    yield self.version.pk, vote.preference, pair.task.id, split.value, number

    def _turns(self, raw: list[chats.RawStep]) -> list[Turn]:
        return [read_turn(*step, keep_surrogates=self.keep_surrogates) for step in raw]

    def _row(self, judged: JudgedPair, verdict: Verdict, cut: Sides, tools: dict[UUID, bytes]) -> Row:
        pair = judged.pair
        chosen, rejected = (pair.first, pair.second) if verdict.first_won else (pair.second, pair.first)
        chosen_policy, rejected_policy = self._policies(judged, verdict)
        votes_for, votes_against, votes_tied = votes_of(verdict)
        judgements = [str(vote.preference) for vote in verdict.votes]
        about: dict[str, Any] = {
            "id": sha256(f"{chosen}{rejected}{''.join(judgements)}".encode()).hexdigest()[:16],
            "task": pair.task.key,
            "environment": pair.task.environment,
            "chosen_run": str(chosen),
            "rejected_run": str(rejected),
            "chosen_policy": chosen_policy,
            "rejected_policy": rejected_policy,
            "strength": verdict.strength,
            "weight": verdict.weight,
            "soft_label": round(verdict.soft_label, DECIMALS),
            "label_weight": round(verdict.label_weight, DECIMALS),
            "votes_for": votes_for,
            "votes_against": votes_against,
            "votes_tied": votes_tied,
            "annotators": [self.labels[vote.annotator] for vote in verdict.votes],
            "judgements": judgements,
            "items": [str(item) for item in pair.items],
        }
        return Row(cut, self._tools_text(tools[chosen], tools[rejected]), about)

    def _policies(self, judged: JudgedPair, verdict: Verdict) -> tuple[str, str]:
        """Names of the chosen and the rejected run's policies; empty where unknown: Arrow would type a null column by chance."""
        names = [self.policies.get(p, "") if p else "" for p in (judged.pair.first_policy, judged.pair.second_policy)]
        return (names[0], names[1]) if verdict.first_won else (names[1], names[0])

    def _tools_text(self, chosen: bytes, rejected: bytes) -> bytes:
        """Runs of one environment share their tools, so the last combinations are kept."""
        text = self._tools.get((chosen, rejected))
        if text is None:
            if len(self._tools) >= 32:
                self._tools.clear()
            text = encode_tools(jsontext.loads(chosen), jsontext.loads(rejected))
            self._tools[chosen, rejected] = text
        return text

    def _count(self, judged: JudgedPair, verdict: Verdict, cut: Sides, split: Split) -> None:
        task = judged.pair.task
        self.figures.count_row(
            cut,
            split=split.value,
            task=task.id,
            environment=task.environment,
            policies=self._policies(judged, verdict),
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


def _record(sources: list[Source]) -> None:
    """Write which judgements went into which rows."""
    with connection.cursor() as cursor:
        raw: Any = cursor.cursor
        columns = "version_id, preference_id, task_id, split, row"
        with raw.copy(f"COPY datasets_versionpreference ({columns}) FROM STDIN") as copy:
            for source in sources:
                copy.write_row(source)
