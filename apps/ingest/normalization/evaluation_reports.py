"""Evaluation outcomes that an archive keeps in separate files beside the trajectories: Harbor trials, SWE-bench reports.

An outcome is assigned only if its trajectory is unambiguous: a trial's to the trajectories in its folder, a report's to an instance that was run once
in the folder of the report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from apps.ingest.normalization.fields import mapping, number, reward_of, text
from apps.ingest.records import Json, TrajectoryRecord
from contract import jsontext

HEAD = 512
BEGINNING = b'"total_instances"'
"""How SWE-bench reports begin, whatever their name."""
NAMES = ("result.json", "report.json", "results.json")
MAX_BYTES = 16 << 20
"""Size of one report."""
MAX_KEPT = 128 << 20
"""Approximate bytes kept of all reports of an archive."""
BYTES_A_NAME = 100
OF_APPWORLD = re.compile(r"(?:^|/)tasks/([^/]+)/logs/lm_calls\.jsonl(?:\.gz)?$")
SCORE, OF_OSWORLD = "result.txt", "traj.jsonl"
"""The files in which OSWorld keeps a trajectory's outcome and the trajectory."""
OF_APPWORLD_FOUND = "evaluations"
"""AppWorld's folder of results, one file per set of tasks."""
ASIDE = ("results", "evaluation", "reports", OF_APPWORLD_FOUND)
"""Report folders beside the trajectories: they apply to everything in their parent folder."""
OF_TRIALS = ("task_name", "verifier_result", "exception_info")
"""The fields of a trial that are used."""
OF_TRIAL = "trajectory"
"""Prefix of the files with a trial's own agent; the others are of agents that summarized for it."""


@dataclass
class Outcomes:
    """The outcomes in an archive's reports, by the folders that they apply to."""

    trials: dict[PurePosixPath, dict[str, Any]] = field(default_factory=dict)
    reports: dict[PurePosixPath, list[dict[str, bool]]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    """Files that were reports, which hold no trajectories."""
    paths: dict[str, set[PurePosixPath]] = field(default_factory=dict)
    """Where each judged instance is: the outermost folder or file named after it."""
    scores: dict[PurePosixPath, float] = field(default_factory=dict)
    """The score in OSWorld's `result.txt`, by folder."""
    with_trajectory: set[PurePosixPath] = field(default_factory=set)
    """Agent folders whose trial has a trajectory: other files there are the agent's own records of it."""
    kept: int = 0
    """Approximate number of bytes."""

    @property
    def is_full(self) -> bool:
        """Nothing more may be taken: a small archive can hold a lot."""
        return self.kept > MAX_KEPT

    def add(self, path: str, body: bytes) -> None:
        """Add a file's outcomes, if it's a report."""
        try:
            row = jsontext.loads(body)
        except jsontext.UnreadableJSON:
            return
        location = PurePosixPath(path)
        if "verifier_result" in mapping(row) and ("task_name" in row or "trial_name" in row):
            self.trials[location.parent] = trial = {name: row.get(name) for name in OF_TRIALS}
            self.kept += len(jsontext.dumps(trial))
        elif verdicts := verdicts_in(row):
            around = location.parent.parent if location.parent.name in ASIDE else location.parent
            plain = {instance: resolved for instance, resolved in verdicts.items() if resolved is not None}
            self.reports.setdefault(around, []).append(plain)
            self.kept += sum(len(instance) + BYTES_A_NAME for instance in plain)
        else:
            return
        self.read.add(path)

    def add_score(self, path: str, body: bytes) -> None:
        """Add the score in an OSWorld file, if it's a number."""
        score = number(body.decode("utf-8", "replace").strip())
        if score is not None:
            self.scores[PurePosixPath(path).parent] = score
            self.read.add(path)

    def see(self, paths: list[str]) -> None:
        """Record where the judged trajectories are."""
        judged = {instance for reports in self.reports.values() for report in reports for instance in report}
        for location in map(PurePosixPath, paths if judged else ()):
            for folder in (*reversed(location.parents), location):
                if (name := folder.name.partition(".traj")[0].removesuffix(".json")) in judged:
                    self.paths.setdefault(name, set()).add(folder)
                    break
        locations = map(PurePosixPath, paths if self.trials else ())
        self.with_trajectory = {
            p.parent for p in locations if p.name == f"{OF_TRIAL}.json" and p.parent.parent in self.trials
        }

    def holds_no_trajectory(self, path: str) -> bool:
        """Whether a file is a report, or a second record of a trial's trajectory."""
        location = PurePosixPath(path)
        return path in self.read or (
            not _is_of_trial(location) and not self.with_trajectory.isdisjoint(location.parents)
        )

    def complete(self, record: TrajectoryRecord, path: str) -> None:
        """Fill in what the trajectory in the file at `path` lacks from its trial or its folders."""
        location = PurePosixPath(path)
        _set_task_of_folder(record, location)
        if record.reward is None and location.name == OF_OSWORLD:
            record.outcome.reward = self.scores.get(location.parent)
        trial = next((self.trials[folder] for folder in location.parents if folder in self.trials), None)
        if trial is not None and _is_of_trial(location) and ".summarization" not in location.name:
            _complete_from_trial(record, trial)

    def verdict(self, record: TrajectoryRecord, path: str) -> bool | None:
        """Whether the nearest report marks a trajectory as a success; None if reports differ or may be about another run of the same instance."""
        location, names = PurePosixPath(path), {record.task.key, record.id}
        for folder in location.parents:
            verdicts = {
                (name, report[name]) for report in self.reports.get(folder, ()) for name in names & report.keys()
            }
            if verdicts:
                trajectory_paths = [
                    path for name, _ in verdicts for path in self.paths.get(name, ()) if path.is_relative_to(folder)
                ]
                return next(iter(verdicts))[1] if len(verdicts) == len(trajectory_paths) == 1 else None
        return None


def begins_like_report(path: str, head: bytes) -> bool:
    """Whether a file may be a report, judging by its name and first bytes."""
    location = PurePosixPath(path)
    is_named = location.name in NAMES or location.parent.name == OF_APPWORLD_FOUND
    return path.endswith(".json") and (is_named or BEGINNING in head)


def verdicts_in(row: Json) -> dict[str, bool | None]:
    """Instances and whether they were resolved, from a report about one or many; None if it says both."""
    details = mapping(row)
    verdicts: dict[str, bool | None] = {}
    for key in ("resolved_ids", "unresolved_ids", "resolved"):
        for name in _names(details.get(key)):
            resolved = key != "unresolved_ids"
            verdicts[name] = resolved if verdicts.get(name, resolved) == resolved else None
    alone = {name: mapping(entry).get("resolved") for name, entry in details.items()}
    alone |= {
        name: mapping(entry).get("success") for name, entry in mapping(details.get("individual")).items()
    }  # AppWorld
    return verdicts or {name: entry for name, entry in alone.items() if type(entry) is bool}


def _names(entry: Json) -> Iterator[str]:
    yield from (name for name in entry if type(name) is str) if type(entry) is list else ()


def _set_task_of_folder(record: TrajectoryRecord, location: PurePosixPath) -> None:
    """Set the task where a benchmark names it only in its folder names."""
    if location.name == OF_OSWORLD and record.task.environment == "osworld":
        record.task.key, record.task.category = location.parent.name or record.task.key, location.parent.parent.name
    elif match := OF_APPWORLD.search(str(location)):
        record.task.key, record.task.environment = match[1], "appworld"


def _is_of_trial(location: PurePosixPath) -> bool:
    return location.name.split(".")[0] == OF_TRIAL


def _complete_from_trial(record: TrajectoryRecord, trial: dict[str, Any]) -> None:
    record.task.key = text(trial.get("task_name")) or record.task.key
    rewards = mapping(mapping(trial.get("verifier_result")).get("rewards"))
    if record.reward is None:
        record.outcome.reward = reward_of(rewards.get("reward"))
    if len(rewards) > 1:
        record.info["rewards"] = rewards
    failed = text(mapping(trial.get("exception_info")).get("exception_type"))
    record.outcome.termination = record.termination or failed
