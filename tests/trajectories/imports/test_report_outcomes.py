"""Evaluation reports imported separately from their trajectories: they only set outcomes of existing trajectories that have none."""

import json
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from apps.accounts.models import Workspace
from apps.ingest.formats import named
from apps.jobs.models import JobState
from apps.trajectories.imports.bulk_copy import Origin, replace
from apps.trajectories.imports.preparation import prepare
from apps.trajectories.imports.report_outcomes import withdraw_outcomes
from apps.trajectories.imports.upload import finished_import
from apps.trajectories.models import ImportBatch, Trajectory
from tests import factories
from tests.ingest.files.test_inspect_archive import archive
from tests.ingest.formats.examples import EXAMPLES
from tests.trajectories.uploads import imported, lines, rich

pytestmark = pytest.mark.django_db

RUN = EXAMPLES["mini-swe-agent"]
NAME = RUN["instance_id"]
REPORT = {"total_instances": 2, "resolved_ids": [NAME], "unresolved_ids": ["other__repo-2"]}


@pytest.fixture
def home() -> Workspace:
    return factories.workspace()


def run(policy: str = "p", instance: str = NAME, **more: Any) -> dict[str, Any]:
    """A trajectory of an instance, in mini-swe-agent's format."""
    model = {"config": {"model": {"model_name": policy}}}
    verdict = {"resolved": more.pop("resolved")} if "resolved" in more else {}
    return {**RUN, **verdict, "instance_id": instance, "info": {**RUN["info"], **model, **more}}


def outcomes() -> list[tuple[str, bool | None]]:
    return [
        (trajectory.policy.name, trajectory.success)
        for trajectory in Trajectory.objects.select_related("policy").order_by("pk")
    ]


def reasons(batch: ImportBatch) -> list[str]:
    return list(batch.rejected_rows.order_by("position").values_list("reason", flat=True))


@pytest.mark.parametrize(
    ("report", "success"),
    [
        (REPORT, True),
        ({"resolved_ids": [], "unresolved_ids": [NAME]}, False),
        ({"resolved": [NAME], "no_logs": []}, True),
        ({NAME: {"resolved": False, "patch_exists": True}}, False),
        ({"instance_id": NAME, "resolved": True}, True),
    ],
)
def test_a_report_gives_the_run_of_an_instance_its_outcome(home: Workspace, report: Any, success: bool) -> None:
    imported(lines(run()), home)
    before = Trajectory.objects.values_list("content_hash", flat=True).get()
    batch = imported(lines(report), home, "report.json")
    trajectory = Trajectory.objects.get()
    assert (batch.state, batch.format, batch.outcome_count) == (JobState.DONE, "swe-bench-report", 1)
    assert (trajectory.success, trajectory.outcome_batch, bytes(trajectory.content_hash)) == (
        success,
        batch,
        bytes(before),
    )


def test_a_table_of_instances_is_a_report(home: Workspace) -> None:
    imported(lines(run()), home)
    batch = imported(f"instance_id,resolved\n{NAME},false\nother__repo-2,maybe\n".encode(), home, "outcomes.csv")
    assert (outcomes(), batch.outcome_count, batch.rejected_count) == ([("p", False)], 1, 1)


def test_a_report_may_come_again_when_the_runs_have_come(home: Workspace) -> None:
    first = imported(lines(REPORT), home, "report.json")
    assert (first.outcome_count, first.rejected_count) == (0, 2)
    assert reasons(first)[0] == f"This workspace has no trajectory of {NAME}."
    assert finished_import(workspace_id=home.pk, sha256=first.sha256) is None
    imported(lines(run()), home)
    assert [imported(lines(REPORT), home, "report.json").outcome_count for _ in range(2)] == [1, 0]
    last = ImportBatch.objects.order_by("pk").last()
    assert last is not None
    assert (last.duplicate_count, outcomes()) == (1, [("p", True)])


def test_an_outcome_that_is_known_is_never_changed(home: Workspace) -> None:
    imported(lines(run(resolved=False)), home)
    chat = {"messages": EXAMPLES["openai-chat"]["messages"], "instance_id": "other__repo-2", "resolved": True}
    imported(lines(chat), home)
    batch = imported(lines(REPORT), home, "report.json")
    assert batch.outcome_count == 0
    assert "other__repo-2 is known as resolved; the report says otherwise. Nothing was changed." in reasons(batch)


def test_where_several_runs_may_be_meant_none_is_judged_until_the_policy_is_named(home: Workspace) -> None:
    imported(lines(run("a/one"), run("b/two")), home)
    batch = imported(lines(REPORT), home, "report.json")
    assert reasons(batch)[0] == f"2 trajectories of {NAME} match."
    imported(lines(REPORT), home, "report.json", policy_name="b/two")
    assert outcomes() == [("a/one", None), ("b/two", True)]


def test_a_report_that_is_named_after_its_policy_judges_the_runs_of_that_one(home: Workspace) -> None:
    imported(lines(run("a/one"), run("b/two")), home)
    imported(lines(REPORT), home, "a__one.first_try.json")
    assert outcomes() == [("a/one", True), ("b/two", None)]


def test_a_report_that_says_both_of_an_instance_says_nothing_of_it(home: Workspace) -> None:
    imported(lines(run()), home)
    batch = imported(lines({"resolved_ids": [NAME], "unresolved_ids": [NAME]}), home, "report.json")
    assert (outcomes(), reasons(batch)) == (
        [("p", None)],
        [f"The report lists {NAME} as both resolved and unresolved."],
    )


def test_of_two_lines_about_an_instance_the_first_counts(home: Workspace) -> None:
    imported(lines(run()), home)
    table = f"instance_id,resolved\n{NAME},true\n{NAME},false\n{NAME},true\n".encode()
    batch = imported(table, home, "outcomes.csv")
    assert (outcomes(), batch.outcome_count) == ([("p", True)], 1)
    assert reasons(batch) == [f"{NAME} is known as resolved; the report says otherwise. Nothing was changed."]


def test_an_archive_of_runs_and_report_judges_runs_that_are_here_already(home: Workspace) -> None:
    first, second = run(), run(exit_status="Timeout")
    imported(lines(first, second), home)
    members = {f"a/{NAME}.traj.json": second, "a/report.json": REPORT}
    packed = archive({name: json.dumps(body).encode() for name, body in members.items()})
    batches = [imported(packed, home, "runs.zip") for _ in range(2)]
    assert [(batch.duplicate_count, batch.outcome_count, batch.trajectory_count) for batch in batches] == [
        (1, 1, 0),
        (1, 0, 0),
    ]
    assert outcomes() == [("p", None), ("p", True)]


@pytest.mark.parametrize("are_here", [False, True])
def test_of_two_outcomes_that_an_archive_gives_one_run_the_first_counts(home: Workspace, are_here: bool) -> None:
    """Among many: the database needn't insert equal rows in their order."""
    names = [f"org__repo-{number}" for number in range(60)]
    runs = [run(instance=name) for name in names]
    if are_here:
        imported(lines(*runs), home)
    members: dict[str, Any] = {}
    for folder, succeeded in (("a", names[::2]), ("b", names[1::2])):
        members[f"{folder}/report.json"] = {
            "resolved_ids": succeeded,
            "unresolved_ids": sorted({*names} - {*succeeded}),
        }
        members |= {f"{folder}/{name}.traj.json": body for name, body in zip(names, runs, strict=True)}
    packed = archive({name: json.dumps(body).encode() for name, body in members.items()})
    batch = imported(packed, home, "runs.zip")
    assert (batch.trajectory_count, batch.duplicate_count) == ((0, 120) if are_here else (60, 60))
    assert batch.warning_count == 60
    assert batch.warnings[0].startswith(f"b/{names[0]}.traj.json, ")
    assert batch.warnings[0].endswith(
        "A report in the archive contradicts the outcome that this trajectory has already. Nothing was changed."
    )
    successes = dict(Trajectory.objects.values_list("task__key", "success"))
    assert successes == {name: number % 2 == 0 for number, name in enumerate(names)}


def test_runs_that_came_in_with_their_report_are_known_again_without_it(home: Workspace) -> None:
    members = {f"a/{NAME}.traj.json": run(), "a/report.json": REPORT}
    imported(archive({name: json.dumps(body).encode() for name, body in members.items()}), home, "runs.zip")
    assert imported(lines(run()), home).duplicate_count == 1
    assert outcomes() == [("p", True)]


def test_an_archive_of_reports_alone_judges_as_each_of_them_does(home: Workspace) -> None:
    imported(lines(run(), run(instance="other__repo-2")), home)
    reports = {f"logs/{NAME}/report.json": {NAME: {"resolved": True, "patch_exists": True}}}
    reports |= {"logs/other__repo-2/report.json": {"other__repo-2": {"resolved": False, "patch_exists": True}}}
    batch = imported(archive({name: json.dumps(body).encode() for name, body in reports.items()}), home, "logs.zip")
    assert (batch.state, batch.outcome_count) == (JobState.DONE, 2)
    assert outcomes() == [("p", True), ("p", False)]


def test_the_runs_of_another_workspace_are_left_alone(home: Workspace) -> None:
    imported(lines(run()), factories.workspace())
    imported(lines(REPORT), home, "report.json")
    assert outcomes() == [("p", None)]


def test_outcomes_are_taken_back_and_may_be_given_again(home: Workspace) -> None:
    imported(lines(run()), home)
    batch = imported(lines(REPORT), home, "report.json")
    assert [withdraw_outcomes(batch), withdraw_outcomes(batch)] == [1, 0]
    assert (outcomes(), batch.outcome_count) == ([("p", None)], 0)
    assert imported(lines(REPORT), home, "report.json").outcome_count == 1


def test_the_page_of_a_report_leads_to_the_runs_and_takes_their_outcomes_back(client: Client, home: Workspace) -> None:
    imported(lines(run()), home)
    batch = imported(lines(REPORT), home, "report.json")
    client.force_login(factories.member(of=home).user)
    assert "given an outcome" in client.get(f"/imports/{batch.pk}/").content.decode()
    assert NAME in client.get(f"/trajectories/?batch={batch.pk}").content.decode()
    trajectory = Trajectory.objects.get()
    assert "Outcome from" in client.get(f"/trajectories/{trajectory.pk}/").content.decode()
    assert (
        "1 trajectory has no outcome again."
        in client.post(f"/imports/{batch.pk}/take-back/", follow=True).content.decode()
    )
    assert outcomes() == [("p", None)]


def test_an_outcome_from_a_report_survives_a_later_change_of_the_trajectory(home: Workspace) -> None:
    imported(lines(run()), home)
    batch = imported(lines(REPORT), home, "report.json")
    trajectory = Trajectory.objects.get()
    [record] = named("retrace").read(rich(1), "")
    with transaction.atomic():
        assert replace(prepare(record, b"{}", identifier=trajectory.pk), Origin(home.pk, "retrace"))
    trajectory.refresh_from_db()
    assert (trajectory.success, trajectory.outcome_batch, trajectory.step_count) == (True, batch, 2)
