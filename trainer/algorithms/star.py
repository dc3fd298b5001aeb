"""Rejection sampling in rounds: attempt, keep what succeeded, fine-tune the base on it (STaR: Zelikman et al., 2022, arXiv 2203.14465; RFT: Yuan et al.,
2023, arXiv 2308.01825).

Tasks at which every sample failed are attempted again with the calls that solve them as a hint ("rationalization"); where that succeeds, the trajectory is
learned without the hint. As in STaR, each round fine-tunes the base again, on trajectories of the latest policy. A round is a folder with a
rollout run and an SFT run in it, so that a killed one can resume. Left out: keeping successes of earlier rounds, and a verifier other than
the environment.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from contract.atomic_files import write_atomically
from contract.configs import (
    DataConfig,
    LocalPolicy,
    ModelConfig,
    RolloutConfig,
    SftConfig,
    StarConfig,
    TasksConfig,
)
from contract.events import AlarmRaised, CheckpointSaved, Event, Log, Metrics, Progress, Started, Warned
from contract.messages import Message
from contract.trajectory import Task, Trajectory
from trainer.algorithms.online_training import training_tasks
from trainer.algorithms.sft import train_sft
from trainer.events import EventLog, memory_in_use_mb
from trainer.failures import DataFailure
from trainer.interruption import StopRequest
from trainer.records import read_trajectories
from trainer.rewards.tool_use import reference_calls
from trainer.rollouts.output import summarize
from trainer.rollouts.runner import run_rollout

TASKS, HINTED_TASKS, ATTEMPTS = "tasks.jsonl", "hinted_tasks.jsonl", "attempts.jsonl"
PUBLISHED = ("model", "adapter", "canary.json")
"""What the last round leaves in its folder, and the run takes over."""


def train_star(config: StarConfig, folder: Path, events: EventLog, stop: StopRequest) -> dict[str, Any]:
    """Train and return the report's figures. Raises Cancelled, RunFailure."""
    rounds: list[dict[str, Any]] = []
    events.emit(Started(total_steps=0, memory_mb=memory_in_use_mb(), pid=os.getpid()))
    before = held_out_success(config, folder / "rounds" / "0", folder, config.model, events, stop)
    policy = config.model
    for number in range(1, config.rounds + 1):
        round_folder = folder / "rounds" / str(number)
        rounds.append(play_round(config, round_folder, folder, policy, Part(events, number, rounds), stop))
        policy = ModelConfig(path=str((round_folder if number < config.rounds else folder) / "model"))
        if number == config.rounds:
            move_result(round_folder, folder)
        rounds[-1] |= held_out_success(config, round_folder, folder, policy, events, stop)
        log_round(events, number, rounds[-1])
    last = rounds[-1]
    after = {name: last[name] for name in before}
    steps = sum(report["sft"]["steps"] for report in rounds)
    return {
        **last["sft"],
        "steps": steps,
        "rounds": rounds,
        "validation": {"before": figures(before), "after": figures(after)},
    }


def play_round(
    config: StarConfig, round_folder: Path, folder: Path, policy: ModelConfig, events: EventLog, stop: StopRequest
) -> dict[str, Any]:
    """Attempt tasks, keep successes, and fine-tune. Skipped if the round already has a report."""
    report = round_folder / "round.json"
    if report.exists():
        done: dict[str, Any] = json.loads(report.read_text())
        return done
    times = f"{config.samples} times" if config.samples > 1 else "once"
    events.emit(Log(f"Round {round_folder.name}: attempting {config.tasks.count} tasks {times} each"))
    write_tasks(round_folder / TASKS, training_tasks(config.tasks, folder))
    tasks = TasksConfig(environment=config.tasks.environment, file=TASKS)
    attempts = attempt(
        config, round_folder, folder, policy, events, stop, tasks=tasks, samples=config.samples, output=ATTEMPTS
    )
    chosen = choose(read_trajectories(attempts), max_count=config.kept)
    hinted = rationalize(
        config, round_folder, folder, policy, events, stop, solved={trajectory.task.key for trajectory in chosen}
    )
    events.emit(
        Log(f"Learning from {len(chosen)} trajectories that succeeded and {len(hinted)} that succeeded with a hint")
    )
    if not chosen and not hinted:
        raise DataFailure(
            f"None of {summarize(attempts)['episodes']} attempts succeeded, so there is nothing to learn from.",
            advice="Start from a better policy, choose easier levels, or raise samples.",
        )
    lines = [json.dumps(trajectory.to_json()) + "\n" for trajectory in chosen + hinted]
    (round_folder / "kept.jsonl").write_text("".join(lines))
    sft = train_sft(
        SftConfig(
            model=for_folder(config.model, folder, round_folder),
            data=DataConfig(train="kept.jsonl"),
            optimizer=config.optimizer,
            lora=config.lora,
            checkpoints=config.checkpoints,
            log_every=config.log_every,
            seed=config.seed,
            pause_on_alarms=config.pause_on_alarms,
        ),
        round_folder,
        events,
        stop,
    )
    success = summarize(attempts)["success"]
    done = {"attempts": success, "kept": len(chosen), "with_hint": len(hinted), "sft": sft}
    write_atomically(report, json.dumps(done))
    return done


def attempt(
    config: StarConfig,
    round_folder: Path,
    folder: Path,
    policy: ModelConfig,
    events: EventLog,
    stop: StopRequest,
    *,
    tasks: TasksConfig,
    samples: int,
    output: str,
) -> Path:
    """Roll the policy out; returns the file of trajectories."""
    rollout = RolloutConfig(
        policy=LocalPolicy(model=for_folder(policy, folder, round_folder), sampling=config.sampling, name="policy"),
        tasks=tasks,
        samples=samples,
        budget=config.budget,
        output=output,
        seed=config.seed,
    )
    round_folder.mkdir(parents=True, exist_ok=True)
    run_rollout(rollout, round_folder, Quiet(events), stop)
    return round_folder / output


def rationalize(
    config: StarConfig,
    round_folder: Path,
    folder: Path,
    policy: ModelConfig,
    events: EventLog,
    stop: StopRequest,
    *,
    solved: set[str],
) -> list[Trajectory]:
    """Trajectories that succeeded with the correct calls as a hint, with the hint removed."""
    failed = {
        trajectory.task.key: trajectory.task
        for trajectory in read_trajectories(round_folder / ATTEMPTS)
        if trajectory.task.key not in solved
    }
    hints = {key: hint for key, task in failed.items() if (hint := hint_for(task))}
    if not config.hints or not hints:
        return []
    rows = [replace(failed[key], instruction=failed[key].instruction + hint) for key, hint in hints.items()]
    write_tasks(round_folder / HINTED_TASKS, rows)
    tasks = TasksConfig(environment=config.tasks.environment, file=HINTED_TASKS)
    played = attempt(config, round_folder, folder, policy, events, stop, tasks=tasks, samples=1, output="hinted.jsonl")
    return [
        without_hint(trajectory, hints[trajectory.task.key])
        for trajectory in choose(read_trajectories(played), max_count=1)
    ]


def write_tasks(path: Path, tasks: Iterable[Task]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(asdict(task)) + "\n" for task in tasks))


def hint_for(task: Task) -> str:
    """The calls that solve the task, as text; "" if unknown."""
    calls = reference_calls(task) or []
    hint = "; ".join(f"{call.tool}({json.dumps(call.arguments, ensure_ascii=False)})" for call in calls)
    return f"\n\nHint: {hint}" if hint else ""


def without_hint(trajectory: Trajectory, hint: str) -> Trajectory:
    """The trajectory with the hint removed."""
    opening: list[Message] = [
        {**message, "content": str(message["content"]).replace(hint, "")} if message["role"] == "user" else message
        for message in trajectory.steps[0].context
    ]
    task = replace(trajectory.task, instruction=trajectory.task.instruction.replace(hint, ""))
    return replace(trajectory, task=task, steps=[replace(trajectory.steps[0], context=opening), *trajectory.steps[1:]])


def choose(trajectories: Iterable[Trajectory], *, max_count: int) -> list[Trajectory]:
    """At most `max_count` distinct successes per task, shortest first."""
    of_task: dict[str, dict[str, Trajectory]] = defaultdict(dict)
    for trajectory in trajectories:
        if trajectory.outcome.success and trajectory.steps:
            actions = json.dumps([step.message for step in trajectory.steps], sort_keys=True)
            of_task[trajectory.task.key].setdefault(actions, trajectory)
    return [
        trajectory
        for distinct in of_task.values()
        for _, trajectory in sorted(distinct.items(), key=lambda item: (len(item[1].steps), len(item[0])))[:max_count]
    ]


def held_out_success(
    config: StarConfig, round_folder: Path, folder: Path, policy: ModelConfig, events: EventLog, stop: StopRequest
) -> dict[str, Any]:
    """The policy's success on held-out tasks; empty if evaluation is off."""
    if not config.held_out:
        return {}
    drawn = config.tasks
    tasks = TasksConfig(environment=drawn.environment, levels=drawn.levels, split="held_out", count=config.held_out)
    played = attempt(
        config, round_folder, folder, policy, events, stop, tasks=tasks, samples=1, output="held_out.jsonl"
    )
    return {"held_out": summarize(played)["success"]}


def figures(result: dict[str, Any]) -> dict[str, float]:
    return {"success": result["held_out"]["value"]} if result else {}


def log_round(events: EventLog, number: int, done: dict[str, Any]) -> None:
    held_out = f", {done['held_out']['value']:.0%} on held-out tasks after it" if "held_out" in done else ""
    events.emit(Log(f"Round {number}: {done['attempts']['value']:.0%} of its attempts succeeded{held_out}"))


def for_folder(model: ModelConfig, folder: Path, round_folder: Path) -> ModelConfig:
    """The same model, for a run in another folder."""
    if (folder / model.path).is_dir():
        return model.replaced(path=os.path.relpath(folder / model.path, round_folder))
    return model


def move_result(round_folder: Path, folder: Path) -> None:
    """Move the last round's result to the run's folder. Idempotent."""
    for name in PUBLISHED:
        if (round_folder / name).exists():
            os.replace(round_folder / name, folder / name)


class Quiet(EventLog):
    """Forwards only messages for people: a rollout's other events would look like those of the whole run."""

    def __init__(self, events: EventLog) -> None:
        self.parent = events

    def emit(self, event: Event) -> None:
        if isinstance(event, Log | Warned):
            self.parent.emit(event)

    def close(self) -> None:
        """The parent stays open."""


class Part(EventLog):
    """Forwards the events of one round as the whole run's, with steps offset by those of earlier rounds."""

    def __init__(self, events: EventLog, number: int, earlier: list[dict[str, Any]]) -> None:
        self.parent = events
        self.number = number
        self.offset = sum(done["sft"]["steps"] for done in earlier)

    def emit(self, event: Event) -> None:
        match event:
            case Started():
                event = replace(event, step=event.step + self.offset, total_steps=event.total_steps + self.offset)
            case Progress():
                event = replace(event, step=event.step + self.offset, total=event.total + self.offset)
            case Metrics() | AlarmRaised():
                event = replace(event, step=event.step + self.offset)
            case CheckpointSaved():
                event = replace(event, step=event.step + self.offset, path=f"rounds/{self.number}/{event.path}")
        self.parent.emit(event)

    def close(self) -> None:
        """The parent stays open."""
