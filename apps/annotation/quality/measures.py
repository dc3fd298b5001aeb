"""The quality figures of a queue, computed from gathered judgments. Pure; the result is JSON for storage."""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import combinations, pairwise
from statistics import median
from typing import Any, NamedTuple
from uuid import UUID

from apps.annotation.kinds.measures import Gathered, Measure, UnitValue, Work
from apps.annotation.quality.agreement import Patterns, alpha, fleiss, raw, to_json
from apps.annotation.quality.feedback import batched, settled
from apps.annotation.quality.kappa import cohen
from apps.annotation.quality.shares import Share, share
from apps.common.proportions import sign_test

PEOPLE_COMPARED = 24
"""Number of annotators with the most judgments in the pairwise matrix; a larger one is unreadable."""
PERIODS = 12
ITEMS_A_PERIOD = 20
FAST = 1 / 3
"""Share of the median time of people's judgments below which a judgment counts as hasty, as it does below the item's minimum reading time."""
PAUSE = timedelta(minutes=30)
"""Judgments farther apart belong to different sessions."""


def measure(gathered: Gathered) -> dict[str, Any]:
    """All figures shown on the pages of quality."""
    work, machines = gathered.work, gathered.machines
    main = gathered.measures[0] if gathered.measures else None
    typical = _median(_seconds([*work, *gathered.golds]))
    return {
        "judgments": len(work),
        "items": len({judgment.item for judgment in work}),
        "median_seconds": typical,
        "measures": [row for question_measure in gathered.measures for row in _agreements(question_measure, machines)],
        "over_time": over_time(*_of_peers(main, work, machines)) if main else [],
        "pairs": between_people(main) if main else {"people": [], "cells": []},
        "annotators": people(main, work, typical or 0.0, machines),
        "own": own(main, [*work, *gathered.golds], typical or 0.0, machines),
    }


def _agreements(measure: Measure, machines: Collection[UUID]) -> list[dict[str, Any]]:
    """Among people; then, if models or rules also judged as annotators, among all, which shows how they change it."""
    of_people = [answer for answer in measure.answers if answer.annotator not in machines]
    rows = [{**_agreement(replace(measure, answers=of_people)), "among": "people"}]
    if len(of_people) == len(measure.answers):
        return rows
    return [*(rows if of_people else []), {**_agreement(measure), "among": "all"}]


def _of_peers(measure: Measure, work: Sequence[Work], machines: Collection[UUID]) -> tuple[Measure, Sequence[Work]]:
    """People's judgments or, if no person judged, those of models and rules."""
    answers = [entry for entry in measure.answers if entry.annotator not in machines]
    if not answers:
        return measure, work
    return replace(measure, answers=answers), [entry for entry in work if entry.annotator not in machines]


def _agreement(measure: Measure) -> dict[str, Any]:
    items: dict[int, list[UnitValue]] = defaultdict(list)
    for answer in measure.answers:
        items[answer.item].append(answer)
    grades = Patterns.of_parts((_by_unit(of_item).values() for of_item in items.values()), measure.values)
    coarse = grades.merged(_side, (-1, 0, 1)) if measure.sides else grades
    estimates = {"raw": raw(coarse), "nominal": alpha(coarse, "nominal")}
    if measure.ordered and len(measure.values) > 2:
        estimates |= {"ordinal": alpha(grades, "ordinal"), "interval": alpha(grades, "interval")}
    estimates["fleiss"] = fleiss(coarse)
    return {
        "key": measure.key,
        "name": measure.name,
        "values": len(measure.values),
        "sides": measure.sides,
        "of_steps": any(answer.unit != answer.item for answer in measure.answers),
        **{name: to_json(estimate) for name, estimate in estimates.items()},
    }


def _side(value: int) -> int:
    return (value > 0) - (value < 0)


def _by_unit(answers: Iterable[UnitValue]) -> dict[Hashable, list[int]]:
    units: dict[Hashable, list[int]] = defaultdict(list)
    for answer in answers:
        units[answer.unit].append(answer.value)
    return units


def over_time(measure: Measure, work: Sequence[Work]) -> list[dict[str, Any]]:
    """Agreement in intervals with equal numbers of items, ordered by the items' last judgments."""
    finished: dict[int, datetime] = {}
    times: Counter[int] = Counter()
    for judgment in work:
        times[judgment.item] += 1
        finished[judgment.item] = max(judgment.at, finished.get(judgment.item, judgment.at))
    shared = sorted((item for item in finished if times[item] > 1), key=lambda item: (finished[item], item))
    size = max(ITEMS_A_PERIOD, -(-len(shared) // PERIODS))
    answers_by_item: dict[int, list[UnitValue]] = defaultdict(list)
    for answer in measure.answers:
        answers_by_item[answer.item].append(answer)
    periods = []
    for start in range(0, len(shared), size):
        stretch = shared[start : start + size]
        if start and len(stretch) < ITEMS_A_PERIOD:
            break  # too few for a figure; they join the next interval
        patterns = Patterns.of_parts((_by_unit(answers_by_item[item]).values() for item in stretch), measure.values)
        coarse = patterns.merged(_side, (-1, 0, 1)) if measure.sides else patterns
        periods.append(
            {
                "until": finished[stretch[-1]].isoformat(timespec="minutes"),
                "through": start + len(stretch),
                "alpha": to_json(alpha(coarse, "nominal")),
                "raw": to_json(raw(coarse)),
            }
        )
    return periods


def between_people(measure: Measure) -> dict[str, Any]:
    """Cohen's kappa between each two of the most active annotators, over the units that both judged."""
    grades: dict[UUID, dict[Hashable, int]] = defaultdict(dict)
    item_of: dict[Hashable, int] = {}
    for answer in measure.answers:
        item_of[answer.unit] = answer.item
        grades[answer.annotator][answer.unit] = _side(answer.value) if measure.sides else answer.value
    busiest = sorted(grades, key=lambda annotator_id: (-len(grades[annotator_id]), str(annotator_id)))[:PEOPLE_COMPARED]
    values = (-1, 0, 1) if measure.sides else measure.values
    cells = []
    for x, y in combinations(busiest, 2):
        both = grades[x].keys() & grades[y].keys()
        if both:
            pairs: dict[int, list[tuple[int, int]]] = defaultdict(list)
            for unit in both:
                pairs[item_of[unit]].append((grades[x][unit], grades[y][unit]))
            kappa = cohen(pairs.values(), values)
            same = sum(grades[x][unit] == grades[y][unit] for unit in both)
            agreed = share(same, len(both), items=len(pairs))
            cells.append({"x": str(x), "y": str(y), "kappa": to_json(kappa), "same": agreed.to_json()})
    return {"people": [str(annotator_id) for annotator_id in busiest], "cells": cells}


class Consensus(NamedTuple):
    """How often somebody agreed with the majority of the others."""

    same: int
    of: int
    """Units that others judged as well, with a majority among them."""
    items: int
    """Their items."""

    def share(self) -> Share:
        return share(self.same, self.of, items=self.items)


NOBODY_ELSE = Consensus(0, 0, 0)


def with_others(
    measure: Measure, among: Mapping[UUID, Collection[int]] | None = None, machines: Collection[UUID] = ()
) -> dict[UUID, Consensus]:
    """Each annotator's agreement with the others, excluding their own judgment; units without a majority are skipped.

    The others are people: `machines` are compared with people but aren't part of the reference, unless no person judged. `among`: the
    items on which to compare each annotator; by default all of theirs.
    """
    if all(answer.annotator in machines for answer in measure.answers):
        machines = ()
    votes: dict[Hashable, Counter[int]] = defaultdict(Counter)
    valued = [(answer, _side(answer.value) if measure.sides else answer.value) for answer in measure.answers]
    for answer, value in valued:
        votes[answer.unit][value] += answer.annotator not in machines
    same: Counter[UUID] = Counter()
    of: Counter[UUID] = Counter()
    items: dict[UUID, set[int]] = defaultdict(set)
    for answer, value in valued:
        if among is not None and answer.item not in among.get(answer.annotator, ()):
            continue
        is_person = answer.annotator not in machines
        other_counts = [
            times - (is_person and other_value == value) for other_value, times in votes[answer.unit].items()
        ]
        max_votes = max(other_counts)
        if not max_votes or other_counts.count(max_votes) > 1:
            continue
        of[answer.annotator] += 1
        items[answer.annotator].add(answer.item)
        same[answer.annotator] += votes[answer.unit][value] - is_person == max_votes
    return {
        annotator_id: Consensus(same[annotator_id], of[annotator_id], len(items[annotator_id])) for annotator_id in of
    }


def people(
    measure: Measure | None, work: Sequence[Work], typical: float, machines: Collection[UUID] = ()
) -> dict[str, dict[str, Any]]:
    """Figures by annotator id. `typical`: the median time of people's judgments in seconds."""
    by: dict[UUID, list[Work]] = defaultdict(list)
    for judgment in work:
        by[judgment.annotator].append(judgment)
    agreeing = with_others(measure, machines=machines) if measure else {}
    return {
        str(annotator_id): {
            **_pace(work_of_annotator, typical),
            "consensus": agreeing.get(annotator_id, NOBODY_ELSE).share().to_json(),
            "left": _left_bias(work_of_annotator),
        }
        for annotator_id, work_of_annotator in by.items()
    }


def own(
    measure: Measure | None, answers: Iterable[Work], typical: float, machines: Collection[UUID] = ()
) -> dict[str, dict[str, Any]]:
    """The figures that annotators see about themselves, by id. `answers` includes gold, since figures that don't change would reveal it.

    Pace and sides are known to them anyway; accuracy is delayed as described in `feedback`.
    """
    by: dict[UUID, list[Work]] = defaultdict(list)
    for judgment in sorted(answers, key=lambda judgment: judgment.at):
        by[judgment.annotator].append(judgment)
    settled_work = {annotator_id: settled(work) for annotator_id, work in by.items()}
    items = {annotator_id: {judgment.item for judgment in work} for annotator_id, work in settled_work.items()}
    agreeing = with_others(measure, items, machines) if measure else {}
    return {
        str(annotator_id): {
            **_pace(work, typical),
            "left": _left_bias(work),
            "told": len(settled_work[annotator_id]),
            "consensus": agreeing.get(annotator_id, NOBODY_ELSE).share().to_json(),
            "gold": _gold_accuracy(batched(settled_work[annotator_id], lambda judgment: judgment.is_right is not None)),
        }
        for annotator_id, work in by.items()
    }


def _gold_accuracy(golds: Sequence[Work]) -> dict[str, Any]:
    return share(sum(bool(gold.is_right) for gold in golds), len(golds)).to_json()


def _pace(work: Sequence[Work], typical: float) -> dict[str, Any]:
    timed = _seconds(work)
    at_work = sum(timed)
    fast = sum(
        judgment.seconds < max(FAST * typical, judgment.least_seconds)
        for judgment in work
        if judgment.seconds is not None
    )
    return {
        "judged": len(work),
        "median_seconds": _median(timed),
        "seconds": round(at_work, 1) if timed else None,
        "per_hour": round(3600 * len(timed) / at_work, 1) if at_work else None,
        "sittings": count_sessions(judgment.at for judgment in work),
        "fast": share(fast, len(timed)).to_json(),
        "latest": max(judgment.at for judgment in work).isoformat(timespec="seconds"),
    }


def _seconds(work: Sequence[Work]) -> list[float]:
    """Times of people's judgments only."""
    return [judgment.seconds for judgment in work if judgment.seconds is not None]


def _median(seconds: Sequence[float]) -> float | None:
    return median(seconds) if seconds else None


def count_sessions(times: Iterable[datetime]) -> int:
    """The number of sessions."""
    ordered = sorted(times)
    return 1 + sum(later - earlier > PAUSE for earlier, later in pairwise(ordered)) if ordered else 0


def _left_bias(work: Sequence[Work]) -> dict[str, Any]:
    """The share of left choices, and the p-value of the deviation from ½ (exact two-sided binomial test)."""
    sides = [judgment.chose_left for judgment in work if judgment.chose_left is not None]
    estimate = share(sum(sides), len(sides)).to_json()
    return {**estimate, "p": float(f"{sign_test(sum(sides), len(sides)):.2g}") if sides else None}
