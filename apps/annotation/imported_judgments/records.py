"""Interprets imported trajectories as judgments, given the meanings of their columns. Reads only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby, islice
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Case, F, Value, When
from django.db.models.expressions import CombinedExpression

from apps.accounts.models import Workspace
from apps.annotation.imported_judgments.adoptable import LOOKED_AT, STEPS_LOOKED_AT, pairs_of, trajectories_of
from apps.annotation.kinds import KINDS, Kind
from apps.annotation.kinds.meanings import Info, Meanings
from apps.annotation.kinds.pairwise import called
from apps.annotation.queues.sources import Selection
from apps.trajectories.models import Step, Task, Trajectory
from apps.trajectories.outlines import visible
from contract.transcripts import message_lines

SIDE_MISSING = "pairs whose other side isn't among the trajectories"
SAME_TWICE = "pairs whose two sides are the same"
JUDGED_TWICE = "second judgments of a pair by the same annotator"
SAYS_NOTHING = "without a value that has a meaning"
STEPS_A_READING = 20_000
"""Steps fetched per query: one query per task would be thousands, and all at once could exhaust memory."""
EXAMPLES = 3
SHOWN = 600
"""Maximum length of an example's answer in characters."""


@dataclass
class ImportedItem:
    """One item and its judgments, by annotator name."""

    task: UUID
    a: UUID
    b: UUID | None = None
    judgments: dict[str, Any] = field(default_factory=dict)


def items_in(trajectories: Iterable[Trajectory], meanings: Meanings, left_out: Counter[str]) -> Iterator[ImportedItem]:
    """The items of these trajectories, which are ordered by task. Trajectories that yield none are counted in `left_out`, by reason."""
    kind = KINDS[meanings.kind]
    if kind.has_sides:
        for task, group in groupby(trajectories, key=lambda trajectory: trajectory.task_id):
            yield from _pairs(task, list(group), meanings, left_out)
        return
    for trajectory, steps in (
        _with_steps(trajectories) if kind.labels_steps else ((trajectory, ()) for trajectory in trajectories)
    ):
        if judgments := kind.imported(meanings, trajectory.info, steps):
            yield ImportedItem(trajectory.task_id, trajectory.pk, judgments=judgments)
        else:
            left_out[SAYS_NOTHING] += 1


def _pairs(
    task: UUID, trajectories: Sequence[Trajectory], meanings: Meanings, left_out: Counter[str]
) -> list[ImportedItem]:
    """One item per record's pair; if a column names annotators, records with the same two answers are merged, whatever their order."""
    kind = KINDS[meanings.kind]
    first: dict[int | UUID, UUID] = {}
    for trajectory in trajectories:
        first.setdefault(_course(trajectory), trajectory.pk)
    items: dict[tuple[UUID, UUID], ImportedItem] = {}
    for pair in pairs_of(trajectories):
        if pair is None:
            left_out[SIDE_MISSING] += 1
            continue
        judgments = kind.imported(meanings, pair.info, ())
        if (is_same := _course(pair.a) == _course(pair.b)) or not judgments:
            left_out[SAME_TWICE if is_same else SAYS_NOTHING] += 1
            continue
        a, b = (first[_course(trajectory)] if meanings.who else trajectory.pk for trajectory in pair)
        is_turned = (b, a) in items
        item = items.setdefault((b, a) if is_turned else (a, b), ImportedItem(task, a, b))
        for annotator, grade in judgments.items():
            left_out[JUDGED_TWICE] += annotator in item.judgments
            item.judgments.setdefault(annotator, grade.turned if is_turned else grade)
    return list(items.values())


def _course(trajectory: Trajectory) -> int | UUID:
    """Equal for indistinguishable trajectories."""
    return trajectory.pk if trajectory.course is None else trajectory.course


def _with_steps(trajectories: Iterable[Trajectory]) -> Iterator[tuple[Trajectory, list[Info]]]:
    """Each trajectory with the extra columns of its steps."""
    for some in _readings(trajectories):
        steps: dict[UUID, list[Any]] = defaultdict(list)
        noted = Step.objects.filter(trajectory__in=[trajectory.pk for trajectory in some]).order_by(
            "trajectory", "index"
        )
        for trajectory_id, info in noted.values_list("trajectory", "info"):
            steps[trajectory_id].append(info)
        for trajectory in some:
            yield trajectory, steps[trajectory.pk]


def _readings(trajectories: Iterable[Trajectory]) -> Iterator[list[Trajectory]]:
    """These trajectories, in order, in batches of about STEPS_A_READING steps."""
    some: list[Trajectory] = []
    steps = 0
    for trajectory in trajectories:
        if some and steps + trajectory.step_count > STEPS_A_READING:
            yield some
            some, steps = [], 0
        some.append(trajectory)
        steps += trajectory.step_count
    if some:
        yield some


class Example(NamedTuple):
    """An item with which a person can check whether the meanings are right."""

    instruction: str
    answers: list[tuple[str, str]]
    """(name of the side, most informative step of its trajectory) for each side."""
    judgments: list[tuple[str, str]]
    """(annotator, judgment as text)."""


class Preview(NamedTuple):
    """The items that the first trajectories of a selection would yield."""

    runs: int
    is_all: bool
    items: int
    judgments: int
    annotators: list[str]
    left_out: list[tuple[str, int]]
    examples: list[Example]


def preview(workspace: Workspace, selection: Selection, meanings: Meanings, sides: tuple[str, str] | None) -> Preview:
    """Reads as many trajectories as `survey`. Raises BadFilter."""
    trajectories = list(trajectories_of(workspace, selection)[:LOOKED_AT])
    is_all = len(trajectories) < LOOKED_AT
    if KINDS[meanings.kind].labels_steps:
        steps = accumulate(trajectory.step_count for trajectory in trajectories)
        within = [
            trajectory for trajectory, so_far in zip(trajectories, steps, strict=True) if so_far <= STEPS_LOOKED_AT
        ] or trajectories[:1]
        trajectories, is_all = within, is_all and len(within) == len(trajectories)
    left_out: Counter[str] = Counter()
    items = list(
        items_in(sorted(trajectories, key=lambda trajectory: (trajectory.task_id, trajectory.pk)), meanings, left_out)
    )
    return Preview(
        runs=len(trajectories),
        is_all=is_all,
        items=len(items),
        judgments=sum(len(item.judgments) for item in items),
        annotators=sorted({name for item in items for name in item.judgments}),
        left_out=(+left_out).most_common(),
        examples=_examples(KINDS[meanings.kind], list(_unlike(items)), sides),
    )


def _unlike(items: Iterable[ImportedItem]) -> Iterator[ImportedItem]:
    """A few items with different judgments."""
    examples: dict[Any, ImportedItem] = {}
    for item in items:
        examples.setdefault(str(next(iter(item.judgments.values()))), item)
    return islice(examples.values(), EXAMPLES)


def _examples(kind: Kind[Any, Any, Any], items: Sequence[ImportedItem], sides: tuple[str, str] | None) -> list[Example]:
    tasks = Task.objects.only("instruction").in_bulk({item.task for item in items})
    excerpts = _decisive_steps(kind, items)
    examples = []
    for item in items:
        trajectories = filter(None, (item.a, item.b))
        answers = [
            (called(side) if side else "", excerpts.get(trajectory, ""))
            for side, trajectory in zip(sides or ("",), trajectories, strict=False)
        ]
        judgments = [(name, kind.imported_answer_text(judgment, sides)) for name, judgment in item.judgments.items()]
        examples.append(Example(tasks[item.task].instruction[:SHOWN], answers, judgments))
    return examples


def _decisive_steps(kind: Kind[Any, Any, Any], items: Iterable[ImportedItem]) -> dict[UUID, str]:
    """For each trajectory, the step that a judgment points at, or else its last step."""
    indexes = [
        When(
            trajectory__in=[trajectory for trajectory in (item.a, item.b) if trajectory],
            then=_decisive_index(kind, item.judgments),
        )
        for item in items
    ]
    trajectories = [trajectory for item in items for trajectory in (item.a, item.b) if trajectory]
    steps = Step.objects.filter(trajectory__in=trajectories, index=Case(*indexes, default=-1))
    return {
        trajectory: visible("\n".join(message_lines({**message, "role": ""})).removeprefix(": "))[:SHOWN]
        for trajectory, message in steps.values_list("trajectory", "message")
    }


def _decisive_index(kind: Kind[Any, Any, Any], judgments: Mapping[str, Any]) -> Value | CombinedExpression:
    index = kind.points_at(next(iter(judgments.values())))
    return F("trajectory__step_count") - 1 if index is None else Value(index)
