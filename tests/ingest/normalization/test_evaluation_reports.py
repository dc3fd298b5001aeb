"""Outcomes in separate files of an archive are assigned only if it's clear which trajectory they belong to."""

import io
import json
import tarfile
from collections.abc import Callable
from typing import Any

import pytest

from apps.ingest.formats import UnknownFormat
from apps.trajectories.imports.preparation import chunks
from tests.ingest.files.test_inspect_archive import archive
from tests.ingest.formats.examples import EXAMPLES

ATIF, RUN = EXAMPLES["atif"], EXAMPLES["mini-swe-agent"]
NAME = RUN["instance_id"]
REPORT = {"total_instances": 2, "resolved_ids": [NAME], "unresolved_ids": ["other__repo-2"]}
TRIAL = {
    "task_name": "bench/hello",
    "trial_name": "hello__x",
    "verifier_result": {"rewards": {"reward": 0.5, "style": 1}},
}


def zipped(members: dict[str, Any]) -> bytes:
    return archive({name: json.dumps(body).encode() for name, body in members.items()})


def tarred(members: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as folder:
        for name, body in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(json.dumps(body))
            folder.addfile(entry, io.BytesIO(json.dumps(body).encode()))
    return out.getvalue()


def outcomes_of(body: bytes) -> list[tuple[str, Any, Any]]:
    """The task, reward, and success of each trajectory."""
    prepared = [item for chunk in chunks(io.BytesIO(body), "runs.zip") for item, _ in chunk.prepared]
    outcomes = ((item.columns["success"], item.verdict) for item in prepared)
    return [
        (item.task.key, item.columns["reward"], verdict if stated is None else stated)
        for item, (stated, verdict) in zip(prepared, outcomes, strict=True)
    ]


@pytest.mark.parametrize("pack", [zipped, tarred])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_trial_of_harbor_has_the_reward_and_the_task_that_its_result_names(
    pack: Callable[[dict[str, Any]], bytes], is_first: bool
) -> None:
    result = {"job/hello__x/result.json": TRIAL}
    run = {"job/hello__x/agent/trajectory.json": ATIF}
    assert outcomes_of(pack({**result, **run} if is_first else {**run, **result})) == [("bench/hello", 0.5, None)]


def test_what_summed_up_for_an_agent_is_not_its_trial() -> None:
    aside = {"t/agent/trajectory.summarization-1-summary.json": ATIF}
    ((key, reward, _),) = outcomes_of(zipped({"t/result.json": TRIAL, **aside}))
    assert (key.startswith("prompt-"), reward) == (True, None)


def test_an_agents_own_record_of_a_trial_is_not_a_second_run() -> None:
    own = {"t/agent/sessions/s.json": EXAMPLES["claude-code"], "t/agent/mini-swe-agent.trajectory.json": RUN}
    trial = {
        "t/result.json": TRIAL,
        "t/agent/trajectory.json": ATIF,
        "t/agent/trajectory.cont-1.json": {**ATIF, "notes": "c"},
    }
    assert outcomes_of(zipped({**own, **trial})) == [("bench/hello", 0.5, None)] * 2
    del trial["t/agent/trajectory.json"], trial["t/agent/trajectory.cont-1.json"]
    assert len(outcomes_of(zipped({**own, **trial}))) == 2


def test_a_sub_agent_is_not_judged_by_the_trial_of_the_agent_that_started_it() -> None:
    inner = {**ATIF, "session_id": "s2"}
    runs = outcomes_of(
        zipped({"t/result.json": TRIAL, "t/agent/trajectory.json": {**ATIF, "subagent_trajectories": [inner]}})
    )
    assert [reward for _, reward, _ in runs] == [0.5, None]


@pytest.mark.parametrize(
    ("path", "report", "success"),
    [
        ("run/model.run.json", REPORT, True),
        ("run/model.run.json", {**REPORT, "resolved_ids": [], "unresolved_ids": [NAME]}, False),
        ("run/model.run.json", {**REPORT, "resolved_ids": []}, None),
        ("run/results/results.json", {"resolved": [NAME], "no_logs": []}, True),
        (f"run/{NAME}/report.json", {NAME: {"resolved": False, "patch_exists": True}}, False),
        ("elsewhere/model.run.json", REPORT, None),
    ],
)
def test_a_report_of_swe_bench_judges_the_runs_in_its_folder(path: str, report: Any, success: bool | None) -> None:
    assert outcomes_of(zipped({f"run/{NAME}/{NAME}.traj.json": RUN, path: report})) == [(NAME, None, success)]


def test_a_report_that_may_be_of_another_run_of_an_instance_judges_none() -> None:
    again = {**RUN, "info": {**RUN["info"], "exit_status": "Timeout"}}
    runs = {f"a/{NAME}/{NAME}.traj.json": RUN, f"b/{NAME}/{NAME}.traj.json": again}
    assert [success for *_, success in outcomes_of(zipped({**runs, "model.run.json": REPORT}))] == [None, None]
    own = {"a/model.run.json": REPORT, "b/model.run.json": {**REPORT, "resolved_ids": [], "unresolved_ids": [NAME]}}
    assert [success for *_, success in outcomes_of(zipped({**runs, **own}))] == [True, False]


def test_what_a_run_says_itself_counts() -> None:
    chat = {"messages": EXAMPLES["openai-chat"]["messages"], "task_id": NAME, "success": False, "reward": 0.0}
    assert outcomes_of(zipped({f"{NAME}.json": chat, "report.json": REPORT})) == [(NAME, 0.0, False)]


def test_results_of_trials_without_runs_are_refused_with_what_to_do() -> None:
    with pytest.raises(UnknownFormat, match="Pack them with the trajectories that they judge"):
        outcomes_of(zipped({"job/hello__x/result.json": TRIAL}))


def test_what_appworld_found_of_a_task_is_told_of_its_run() -> None:
    answer = {"choices": [{"message": {"role": "assistant", "content": "a"}}]}
    call = {"id": "1", "input": {"messages": [{"role": "user", "content": "q"}]}, "output": answer}
    report = {"aggregate": {}, "individual": {"a_1": {"success": True, "passes": []}, "a_2": {"success": False}}}
    members = {f"run/tasks/{name}/logs/lm_calls.jsonl": {**call, "id": name} for name in ("a_1", "a_2", "a_3")}
    runs = outcomes_of(zipped({**members, "run/evaluations/dev.json": report}))
    assert sorted(runs, key=str) == [("a_1", None, True), ("a_2", None, False), ("a_3", None, None)]
