"""The shape of each JSON column that an import writes. A new column needs one, or `any_value` if it's only displayed as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Model

from apps.annotation.kinds.pair_selection import Pairing
from apps.annotation.kinds.questions import MAX_ALTERNATIVES
from apps.annotation.models import (
    Continuation,
    Correction,
    Inspection,
    Item,
    Judge,
    Preference,
    Queue,
    Rating,
    StepLabel,
)
from apps.annotation.models.queues import MAX_OVERLAP
from apps.arena.models import Experiment
from apps.arena.stopping_rule import Outcome, StoppingRule
from apps.datasets.models import Version
from apps.gateway.models import Call, Session, SessionEvent
from apps.policies.models import Policy, Promotion
from apps.policies.reports import calibration_of, report_rows
from apps.training.models import Episode, Metric, Run, RunEvent
from apps.trajectories.imports.import_job import MAX_WARNINGS
from apps.trajectories.models import ImportBatch, RolloutBatch, Task
from apps.trajectories.rollouts.rollout_batches import MAX_EPISODES
from apps.transfer.shapes import (
    COUNTS,
    NUMBERS,
    Shape,
    action,
    any_value,
    flag,
    having,
    listed,
    mapping,
    named,
    nullable,
    number,
    one_of,
    or_empty_object,
    text,
    whole,
)

MAX_PAIRS: Final = 100_000
"""Maximum number of an experiment's pairs that count as ties."""
MAX_PARALLEL: Final = 32
"""Episodes that a batch of rollouts plays at once, which its form doesn't ask for."""
MAX_TASKS: Final = 2000
"""Maximum number of an experiment's tasks, as in its form."""

FAILURE: Final = having(category=text, message=text, advice=text, log=listed(text), command=text, details=text)
ANSWER: Final = one_of(text, whole, listed(text))
ANSWERS: Final = named(ANSWER)
MESSAGES: Final = listed(mapping)
SHARE: Final = having({"share": nullable(number)}, count=whole, of=whole, low=nullable(number), high=nullable(number))


def _report(value: Any) -> None:
    """Anything that the pages can display: each algorithm has its own measurements."""
    mapping(value)
    report_rows(value)
    for point in calibration_of(value):
        for part in point:
            number(part)


def _step_answers(value: Any) -> None:
    mapping(value)
    for step, answers in value.items():
        whole(int(step))
        ANSWERS(answers)


def _pairing(value: Any) -> None:
    having(per_task=nullable(whole), different_outcomes=flag, different_policies=flag, seed=whole)(value)
    Pairing.from_json(value)


def _at_most(limit: int) -> Shape:
    def check(value: Any) -> None:
        whole(value)
        if not 0 < value <= limit:
            raise ValueError(f"it is {value}, expected 1 to {limit:,}")

    return check


_selection = having(
    selection=having({"ids": listed(text), "filter": text, "until": nullable(text)}),
    pairing=_pairing,
    adopted=having({"source": text}, meanings=mapping, judged_by=any_value, left_out=COUNTS),
    done=whole,
)
_alternatives = having({"policy": text, "count": _at_most(MAX_ALTERNATIVES), "temperature": number})
_asks = having(
    questions=listed(mapping),
    confidence=flag,
    every_step=flag,
    corrections=flag,
    alternatives=nullable(_alternatives),
    thumb=flag,
    marks=flag,
)
_run_config = having(
    optimizer=having(batch_size=whole, gradient_accumulation=whole),
    budget=having(steps=nullable(whole)),
    sampling=having(max_new_tokens=nullable(whole)),
    tasks=having(environment=text),
    rewards=having(terms=listed(mapping)),
    model=having(scratch=mapping),
    lora=nullable(mapping),
    played_by=text,
    tracker=text,
)
_rollout_config = having(
    tasks=having(split=text, count=_at_most(MAX_EPISODES)),
    samples=_at_most(MAX_EPISODES),
    parallel=_at_most(MAX_PARALLEL),
)


def _rule(value: Any) -> None:
    having(min_tasks=whole, alpha=number)(value)
    if not 0 < StoppingRule(**value).alpha < 1:
        raise ValueError("alpha lies between 0 and 1")


_interval = having({"estimate": nullable(number), "low": number, "high": number, "n": whole})
_success = having({"runs": whole, "succeeded": whole, "rate": _interval})
_cost = having(
    {"sessions": whole, "calls": whole, "dollars": nullable(text), "mean": nullable(text)},
    estimated_calls=whole,
    unknown_calls=whole,
)


def _outcome(value: Any) -> None:
    Outcome(value)


_verdict = having(
    {
        "tally": COUNTS,
        "win_rate": _interval,
        "outcome": _outcome,
        "tasks_planned": whole,
        "items": whole,
        "items_judged": whole,
        "side_bias": named(nullable(number)),
        "judgments_by_kind": COUNTS,
        "success_a": _success,
        "success_b": _success,
        "success_difference": _interval,
    },
    alike=whole,
    cost_a=nullable(_cost),
    cost_b=nullable(_cost),
    stopped_by_rule=flag,
    stopped_by=text,
    promoted=text,
)
_plan = having(
    source=text,
    tasks=_at_most(MAX_TASKS),
    samples=whole,
    overlap=_at_most(MAX_OVERLAP),
    seed=whole,
    rule=_rule,
)


def _tie(value: Any) -> None:
    listed(any_value)(value)
    if len(value) != 2:
        raise ValueError("a tie is a task and a place")
    text(value[0])
    whole(value[1])


_card = having(
    {
        "annotators": listed(having({"id": text, "kind": text, "label": text, "judgments": whole}, source=text)),
        "policies": listed(having({"name": text}, chosen=whole, rejected=whole, rows=whole)),
        "tasks": COUNTS,
        "rows": COUNTS,
        "dropped": COUNTS,
        "judgments": whole,
        "pairs": whole,
        "license": text,
    },
    queues=listed(having(id=text, name=text)),
    environments=COUNTS,
    runs=whole,
    kinds=COUNTS,
    lengths=named(having(messages=COUNTS, bytes=COUNTS)),
    strengths=COUNTS,
    position=SHARE,
    longer_chosen=SHARE,
    failed_pairs=SHARE,
    agreement=mapping,
)
_span = having(part=text, start=whole, quote=text, note=text)

_of_judgment: Final[Mapping[str, Shape]] = {"answers": ANSWERS}
_of_job: Final[Mapping[str, Shape]] = {"failure": or_empty_object(FAILURE)}

SHAPES: Final[Mapping[type[Model], Mapping[str, Shape]]] = {
    Policy: {"settings": having(sampling=nullable(mapping), parameters=nullable(whole)), "report": _report},
    Promotion: {"evidence": mapping},
    ImportBatch: {**_of_job, "warnings": listed(text, max_length=MAX_WARNINGS)},
    RolloutBatch: {**_of_job, "config": _rollout_config},
    Task: {"initial_state": any_value, "success_check": any_value},
    Session: {"task": mapping, "metadata": mapping, "rewards": NUMBERS, "sampling": mapping},
    Call: {"request": mapping, "messages": MESSAGES, "tools": any_value, "reply": mapping},
    SessionEvent: {"value": any_value},
    Queue: {"selection": _selection, "asks": _asks, "layout": named(text)},
    Item: {"known": having({"answer": one_of(whole, text)}, because=text)},
    Preference: {**_of_judgment, "aspects": COUNTS},
    Rating: {**_of_judgment, "step_answers": _step_answers},
    Inspection: {**_of_judgment, "step_answers": _step_answers},
    StepLabel: {"spans": listed(_span)},
    Correction: {"message": action},
    Continuation: {**_of_job, "action": action, "messages": listed(action)},
    Judge: _of_job,
    Version: {**_of_job, "recipe": mapping, "row_counts": COUNTS, "files": mapping, "card": or_empty_object(_card)},
    Run: {**_of_job, "config": _run_config, "report": _report},
    Metric: {"values": named(nullable(number))},
    RunEvent: {"details": having(setting=text)},
    Episode: {"task": mapping},
    Experiment: {"plan": _plan, "alike": listed(_tie, max_length=MAX_PAIRS), "verdict": or_empty_object(_verdict)},
}
