"""A workspace that is exported and imported elsewhere is unchanged: exporting it again gives the same archive."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from django.db import connection

from apps.accounts.models import Membership, Role, User, Workspace
from apps.annotation.models import Annotator, Queue
from apps.annotation.quality.measures import measure
from apps.annotation.quality.reports import gather
from apps.datasets.files.verification import verify
from apps.datasets.models import Version
from apps.gateway.models import Path
from apps.trajectories.models import Original, Step
from apps.transfer.ids import AN_ID, mask_of
from apps.transfer.models import Import
from apps.transfer.tables import EXCEPTIONS, TABLES
from tests import factories
from tests.annotation import builders
from tests.transfer.archives import exported, imported, rows, table, unpacked
from tests.transfer.full_workspace import fill

pytestmark = pytest.mark.django_db
OWN = {table.name: table for table in TABLES}


def _settled(
    members: Mapping[str, bytes], job: Import | None = None, ids: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Everything that must be equal, with ids as in the first archive, and items by position instead of number."""
    mask = mask_of(job.pk) if job else 0

    def before(match: re.Match[str]) -> str:
        number = int(match[0].replace("-", ""), 16) ^ mask
        text = f"{number:032x}"
        dashed = "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
        return dashed if dashed in ids else match[0]

    back = {
        name: AN_ID.sub(before, body.decode()) if name.endswith(".jsonl") and not name.startswith("versions/") else body
        for name, body in members.items()
    }
    places = {
        row["id"]: f"{row['queue']} {row['position']}"
        for row in map(json.loads, str(back["tables/annotation.item.jsonl"]).splitlines())
    }
    row_counts: dict[str, Any] = {}
    for name, body in back.items():
        name = AN_ID.sub(before, name)
        if name in OWN:
            lines = [_row(json.loads(line), OWN[name], places) for line in str(body).splitlines()]
            row_counts[name] = sorted(json.dumps(line, sort_keys=True) for line in lines)
        elif name in ("trajectories.jsonl", "originals.jsonl"):
            row_counts[name] = sorted(str(body).splitlines())
        elif name.startswith("versions/"):
            row_counts[name] = body
    return row_counts


def _row(row: dict[str, Any], table: Any, places: Mapping[int, str]) -> dict[str, Any]:
    row |= table.on_import
    for column in table.columns:
        if column.related_model and column.related_model.__name__ == "Item":
            row[column.name] = places[row[column.name]]
    if table.label == "annotation.item":
        row["id"] = places[row["id"]]
    if table.label == "datasets.version" and row["recipe"].get("without_items") is not None:
        row["recipe"]["without_items"] = [places[item] for item in row["recipe"]["without_items"]]
    return row


def _ids(members: Mapping[str, bytes]) -> frozenset[str]:
    return frozenset(identifier for body in members.values() for identifier in AN_ID.findall(body.decode("latin-1")))


@pytest.fixture
def full(owner: Membership, things: dict[str, Any]) -> Membership:
    """The owner of a workspace with rows in every table."""
    fill(owner, things)
    return owner


def test_the_archive_of_an_imported_workspace_is_the_one_that_was_imported(full: Membership):
    archive = exported(full)
    first = unpacked(archive)
    assert [name for name in OWN if not first[name]] == []
    elsewhere = factories.member(Role.OWNER)
    job = imported(archive, elsewhere)
    assert job.state == "done", job.error
    second = unpacked(exported(elsewhere))
    expected, actual = _settled(first), _settled(second, job, _ids(first))
    assert actual.keys() == expected.keys()
    for name, body in expected.items():
        assert actual[name] == body, name
    named = {(row["email"], row["name"]) for row in rows(first, "people.jsonl")}
    assert named < {(row["email"], row["name"]) for row in rows(second, "people.jsonl")}


def test_a_trajectory_of_a_session_names_its_calls_by_their_new_ids(full: Membership):
    path = Path.objects.filter(session__workspace=full.workspace, session__calls__isnull=False).earliest("pk")
    calls = [str(call.pk) for call in path.session.calls.order_by("pk")]
    theirs = {"metadata": {"session": "01a1b2c3-0000-7000-8000-000000000001"}}
    path.trajectory.info = {"session": str(path.session_id), "calls": calls, **theirs}
    path.trajectory.save(update_fields=["info"])
    elsewhere = factories.member(Role.OWNER)
    imported(exported(full), elsewhere)
    moved = Path.objects.filter(session__workspace=elsewhere.workspace, session__calls__isnull=False).earliest("pk")
    moved_calls = [str(call.pk) for call in moved.session.calls.order_by("pk")]
    assert moved_calls != calls
    assert moved.trajectory.info == {"session": str(moved.session_id), "calls": moved_calls, **theirs}


def test_frozen_versions_keep_their_hash(full: Membership):
    elsewhere = factories.member(Role.OWNER)
    imported(exported(full), elsewhere)
    before, after = (Version.objects.frozen().get(workspace=member.workspace) for member in (full, elsewhere))
    assert before.pk != after.pk
    assert after.content_hash == before.content_hash
    assert verify(after).holds


def test_ids_stay_where_they_are_free(full: Membership):
    archive = exported(full)
    _forget(full.workspace)
    elsewhere = factories.member(Role.OWNER)
    job = imported(archive, elsewhere)
    assert job.state == "done", job.error
    first, second = unpacked(archive), unpacked(exported(elsewhere))
    for label in ("trajectories.trajectory", "policies.policy", "training.run", "gateway.call"):
        assert [row["id"] for row in table(second, label)] == [row["id"] for row in table(first, label)]


def test_an_archive_can_be_imported_into_two_workspaces(full: Membership):
    archive = exported(full)
    jobs = [imported(archive, factories.member(Role.OWNER)) for _ in range(2)]
    assert [job.state for job in jobs] == ["done", "done"]


def test_judgments_keep_their_authors_who_can_neither_sign_in_nor_do_anything_here(full: Membership):
    archive = exported(full)
    elsewhere = factories.member(Role.OWNER)
    people = User.objects.count()
    job = imported(archive, elsewhere)
    made = User.objects.order_by("pk")[people:]
    assert {(user.is_active, user.has_usable_password(), user.memberships.count()) for user in made} == {
        (False, False, 0)
    }
    assert {user.email.split("@")[1] for user in made} == {"moved.invalid"}
    assert "Somebody who left" in {user.name for user in made}
    assert {membership["email"] for membership in job.people} == {
        membership.user.email for membership in full.workspace.memberships.all()
    }


def test_whoever_joins_after_an_import_stays_apart_from_their_earlier_self(full: Membership, labeler: Membership):
    elsewhere = factories.member(Role.OWNER)
    imported(exported(full), elsewhere)
    Membership.objects.create(user=labeler.user, workspace=elsewhere.workspace, role=Role.ANNOTATOR)
    archive = exported(elsewhere)
    named = [row["email"] for row in rows(unpacked(archive), "people.jsonl")]
    assert named.count(labeler.user.email) == 1
    assert len(set(named)) == len(named)
    job = imported(archive, factories.member(Role.OWNER))
    assert job.state == "done", job.error


def test_members_of_the_workspace_are_recognized_by_their_address(full: Membership, labeler: Membership):
    archive = exported(full)
    elsewhere = factories.workspace()
    new_owner = Membership.objects.create(user=full.user, workspace=elsewhere, role=Role.OWNER)
    annotator = Membership.objects.create(user=labeler.user, workspace=elsewhere, role=Role.ANNOTATOR)
    job = imported(archive, new_owner)
    assert job.people == []
    annotator.refresh_from_db()
    assert annotator.role == Role.ANNOTATOR
    assert Annotator.objects.filter(workspace=elsewhere, user=labeler.user).exists()


def test_an_account_of_this_installation_that_is_no_member_is_not_looked_up(full: Membership, labeler: Membership):
    archive = exported(full)
    elsewhere = factories.member(Role.OWNER)
    imported(archive, elsewhere)
    assert not Annotator.objects.filter(workspace=elsewhere.workspace, user=labeler.user).exists()


def _forget(workspace: Workspace) -> None:
    """Delete all of a workspace, regardless of triggers and protected references."""
    rows = {table.model: list(table.rows(workspace).values_list("pk", flat=True)) for table in TABLES}
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        for model in (*(exception for exception in EXCEPTIONS if exception is not Workspace), Step, Original):
            model._base_manager.all()._raw_delete("default")
        for model, rows_of_model in rows.items():
            model._base_manager.filter(pk__in=rows_of_model)._raw_delete("default")
        cursor.execute("SET LOCAL session_replication_role = origin")


def test_agreement_comes_out_the_same(owner: Membership):
    queue = builders.queue(of=owner.workspace, items=6, overlap=2)
    first, second = builders.rule(of=owner.workspace), builders.rule(of=owner.workspace)
    for strength in (2, 2, -1, 1, -3, 2):
        builders.judge(queue, first, strength)
    for strength in (2, -2, -1, 1, 3, 2):
        builders.judge(queue, second, strength)
    elsewhere = factories.member(Role.OWNER)
    job = imported(exported(owner), elsewhere)
    assert job.state == "done", job.error
    moved = Queue.objects.get(workspace=elsewhere.workspace)
    before, after = (
        _without_ids(json.loads(json.dumps(measure(gather(measured)), default=str))) for measured in (queue, moved)
    )
    assert "alpha" in str(before)
    assert after == before


def _without_ids(report: Any) -> Any:
    """A report with its parts sorted by content instead of by id, since ids differ."""
    if isinstance(report, str):
        return AN_ID.sub("", report)
    if isinstance(report, list):
        return sorted((_without_ids(part) for part in report), key=str)
    if not isinstance(report, dict):
        return report
    return sorted(((_without_ids(key), _without_ids(part)) for key, part in report.items()), key=str)
