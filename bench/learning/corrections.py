"""Step-level DPO on corrections of failed runs, in which an expert's action is preferred at the first turn that departs from the expert's way.

The expert is the environment's scripted one. A departure may be harmless, such as another order of the same calls; it is corrected all the same.
"""

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from apps.demo import recipe
from bench.learning.harness import Bench, Outcome
from bench.learning.pairs import failures, pairs_by_outcome
from bench.learning.training import PAIRS_A_TASK, ROLLOUTS_A_TASK, from_pairs, own_pairs, parted, written
from contract.configs import Budget
from contract.messages import Message
from contract.trajectory import Task, Trajectory
from trainer.environments import environment_named
from trainer.environments.office.habits import Habits
from trainer.environments.office.scripts import work
from trainer.rollouts.episode import play
from trainer.rollouts.scripted import ScriptedAgent

SHARES = {"corrections": 1.0, "corrections-third": 1 / 3}
"""Share of the number of pairs that `dpo` learns from."""


def corrections(bench: Bench, *, stage: str) -> Outcome:
    """`less_dpo` compares the policy with that of `dpo`, on preferences between whole runs of the same tasks, task by task."""
    from_pairs(bench, "dpo", own_pairs(bench), scope="trajectory")
    learned, others = parted(bench.trajectories("own"))
    budget = len(pairs_by_outcome(learned, per_task=PAIRS_A_TASK))
    train = corrected(learned, per_task=PAIRS_A_TASK)
    random.Random(bench.seed).shuffle(train)
    files = written(bench, stage, train[: round(SHARES[stage] * budget)], corrected(others, per_task=ROLLOUTS_A_TASK))
    result = from_pairs(bench, stage, files, scope="step")
    result.more["less_dpo"] = bench.difference("dpo", stage)._asdict()
    return result


CORRECTIONS: dict[str, Callable[[Bench], Outcome]] = {stage: partial(corrections, stage=stage) for stage in SHARES}


def corrected(rollouts: Iterable[Trajectory], *, per_task: int) -> list[dict[str, Any]]:
    """Preference rows, at most `per_task` distinct ones of each task: the expert's action, and the one that a failed run took instead."""
    by_task: dict[str, list[Trajectory]] = defaultdict(list)
    for run in failures(rollouts):
        by_task[run.task.key].append(run)
    rows = []
    for runs in by_task.values():
        shown = expert_run(runs[0].task)
        of_task = [row for run in runs if (row := correction(run, shown)) is not None]
        rows += list(
            {
                json.dumps([action(message) for message in row["prompt"] + row["rejected"]]): row for row in of_task
            }.values()
        )[:per_task]
    return rows


def correction(run: Trajectory, shown: Trajectory) -> dict[str, Any] | None:
    """The first turn in which `run` acts differently from `shown`, a run of the same task; None if it does all that `shown` does."""
    for turn, (step, expert_step) in enumerate(zip(run.steps, shown.steps, strict=False)):
        if action(step.message) != action(expert_step.message):
            before = [message for earlier in run.steps[:turn] for message in (*earlier.context, earlier.message)]
            return {
                "prompt": [*before, *step.context],
                "chosen": [expert_step.message],
                "rejected": [step.message],
                "tools": run.tools,
            }
    return None


def action(message: Message) -> str:
    """What distinguishes actions: the calls without their ids, or for a reply without calls that it is one."""
    calls = [call["function"] for call in message.get("tool_calls") or []]
    return json.dumps([[call["name"], call["arguments"]] for call in calls], sort_keys=True)


def expert_run(task: Task) -> Trajectory:
    """The expert's run of an office task, without written reasons."""
    agent = ScriptedAgent(work(Habits(thinks=False), task, random.Random(0)))
    return asyncio.run(play(environment_named(task.environment)(), task, agent, Budget(**recipe.BUDGET)))
