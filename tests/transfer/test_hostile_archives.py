"""Archives are untrusted: every invalid one is refused with a message, and nothing of it is stored."""

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from apps.accounts.models import AuditEntry, Membership, Role
from apps.jobs import lifecycle
from apps.jobs.models import Phase
from apps.policies.models import Policy
from apps.trajectories.imports.upload import store
from apps.trajectories.models import Trajectory
from apps.transfer import archive_reader, people
from apps.transfer.export_job import EXPORTS, export_workspace, request_export
from apps.transfer.import_job import IMPORTS, AnotherImport, import_workspace, request_import
from apps.transfer.loader import NotEmpty
from apps.transfer.models import Import
from apps.transfer.tables import TABLES
from tests import factories
from tests.transfer.archives import Members, changed, imported, packed, refused, rows, table, unpacked, with_rows

pytestmark = pytest.mark.django_db


def test_a_good_one_is_imported_even_if_somebody_packed_it_anew(members: Members):
    job = imported(packed(members), factories.member(Role.OWNER))
    assert job.state == "done", job.error


BAD_ROWS: dict[str, tuple[str, dict[str, Any], str]] = {
    "an unknown column": ("policies.policy", {"is_admin": True}, "There is no column “is_admin”"),
    "another type": ("policies.policy", {"name": 5}, "name: It is a number. Expected: a string"),
    "a choice that there isn't": (
        "policies.policy",
        {"kind": "oracle"},
        "kind: It is “oracle”. Expected: one of model",
    ),
    "null where there is a value": ("policies.policy", {"name": None}, "name: It is null."),
    "an address that runs in the browser": (
        "policies.endpoint",
        {"base_url": "javascript:alert(1)"},
        "isn't an http:// or https:// address",
    ),
    "no id": ("policies.policy", {"id": "../../etc"}, "It doesn't begin with an id."),
    "a person whom nobody named": (
        "trajectories.savedview",
        {"created_by": "boss@example.org"},
        "a person whom the archive",
    ),
    "a number too large for its column": ("policies.promotion", {"environment": "e" * 101}, "100 characters fit"),
    "bytes that aren't base64": ("gateway.call", {"body_digest": "é"}, "bytes in base64"),
    "a time without its zone": ("policies.policy", {"created_at": "2026-01-01T00:00:00"}, "a time with its zone"),
    "a time that no calendar has": (
        "policies.policy",
        {"created_at": "9999-12-31T23:59:59+00:00"},
        "from 1970 to 2200",
    ),
    "a duration that never ends": ("annotation.preference", {"seconds": 1e12}, "seconds: It is 1e+12."),
    "a duration that is no number": ("gateway.call", {"seconds": "nan"}, "seconds: It is nan."),
    "a weight without an end": ("training.runreward", {"weight": "inf"}, "weight: It is inf."),
    "a state of the wrong type": ("training.run", {"state": []}, "don't fit together"),
    "a recipe that can't be read": ("datasets.version", {"recipe": {"x": 1}}, "There is no such rule"),
    "questions that can't be read": ("annotation.queue", {"asks": {"questions": [5]}}, "don't fit together"),
    "an unknown row type": ("datasets.version", {"row_type": "prose"}, "'prose' isn't a row type"),
    "filters of another kind": ("trajectories.savedview", {"query": "x=javascript:alert(1)"}, "don't fit together"),
    "a null character": ("policies.policy", {"name": "a\0b"}, "without null characters"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_row_that_is_wrong_is_refused_with_its_place(members: Members, case: str):
    label, values, words = BAD_ROWS[case]
    error = refused(changed(members, label, **values))
    assert words in error
    if "id" not in values:
        assert f"tables/{label}.jsonl, line 1" in error


def test_a_row_cannot_refer_to_something_of_another_workspace(members: Members):
    foreign = factories.policy()
    first = rows(members, "tables/policies.promotion.jsonl")
    assert not first or first[0]["policy"] != str(foreign.pk)
    error = refused(changed(members, "trajectories.rolloutbatch", policy=str(foreign.pk)))
    assert f"policy: It is {foreign.pk}. Expected: the id of a row of its table in the archive." in error


def test_a_reference_to_the_wrong_table_is_refused(members: Members):
    task = table(members, "trajectories.task")[0]["id"]
    assert "The database refuses a row" in refused(changed(members, "trajectories.rolloutbatch", policy=task))


def test_ids_in_lists_that_name_nothing_in_the_archive_name_nothing_here_either(members: Members):
    foreign = factories.trajectory()
    elsewhere = factories.member(Role.OWNER)
    job = imported(changed(members, "arena.experiment", recorded_a=[str(foreign.pk)]), elsewhere)
    assert job.state == "done", job.error
    experiment = next(t for t in TABLES if t.label == "arena.experiment").rows(elsewhere.workspace).get()
    assert not Trajectory.objects.filter(pk__in=experiment.recorded_a).exists()


def test_keys_of_endpoints_and_sessions_cannot_be_given(members: Members):
    assert "no column “key_variable”" in refused(changed(members, "policies.endpoint", key_variable="SECRET_KEY"))
    assert "no column “key_digest”" in refused(changed(members, "gateway.session", key_digest="0" * 64))


def test_nothing_runs_or_is_on_after_an_import(members: Members):
    elsewhere = factories.member(Role.OWNER)
    later = "2100-01-01T00:00:00+00:00"
    job = imported(changed(members, "training.run", state="queued", queued_at=later), elsewhere)
    assert job.state == "done", job.error
    for exported_table in TABLES:
        rows = exported_table.rows(elsewhere.workspace)
        if any(column.name == "is_on" for column in exported_table.model._meta.concrete_fields):
            assert not rows.filter(is_on=True).exists()
        if hasattr(rows, "active"):
            assert not rows.active().exists()


def test_roles_in_an_archive_give_nobody_anything(members: Members):
    elsewhere = factories.member(Role.OWNER)
    people = [{**person, "role": "owner"} for person in rows(members, "people.jsonl")]
    job = imported(packed(with_rows(members, "people.jsonl", people)), elsewhere)
    assert job.state == "done", job.error
    assert [membership.user for membership in elsewhere.workspace.memberships.all()] == [elsewhere.user]


def _without(name: str) -> Callable[[Members], bytes]:
    return lambda members: packed({member: body for member, body in members.items() if member != name})


def _with(name: str, body: bytes = b"{}\n") -> Callable[[Members], bytes]:
    return lambda members: packed({**members, name: body})


def _of_rollouts(members: Members) -> bytes:
    batch = table(members, "trajectories.rolloutbatch")[0]
    return packed({**members, f"weights/{batch['id']}/model/model.safetensors": b""})


def _swapped(members: Members) -> bytes:
    name = next(member for member in members if member.endswith("train.jsonl"))
    return packed({**members, name: members[name] + b" "})


def _deep(members: Members) -> bytes:
    name = "tables/policies.policy.jsonl"
    first = members[name].splitlines()[0]
    return packed({**members, name: first[:-1] + b',"x":' + b"[" * 5000 + b"]" * 5000 + b"}\n"})


def _twice(members: Members) -> bytes:
    made = io.BytesIO(packed(members))
    with zipfile.ZipFile(made, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("people.jsonl", b"{}\n")
    return made.getvalue()


def _tampered(members: Members) -> bytes:
    """Different content of the same length, with a valid checksum in the zip."""
    manifest = json.loads(unpacked(packed(members))["manifest.json"])
    facts = manifest["members"]
    name = "trajectories.jsonl"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for member_name in facts:
            archive.writestr(
                member_name,
                members[member_name].replace(b"lamp", b"damp") if member_name == name else members[member_name],
            )
        archive.writestr("manifest.json", json.dumps(manifest))
    return made.getvalue()


BAD_FILES: dict[str, tuple[Callable[[Members], bytes], str]] = {
    "no zip file": (lambda members: b"PK\x03\x04" + b"\0" * 100, "A damaged zip archive"),
    "nothing": (lambda members: b"", "A damaged zip archive"),
    "another format": (lambda members: packed(members, format="retrace-workspace/9"), "retrace-workspace/2"),
    "a member with a path": (_with("../../etc/passwd"), "There is no such member"),
    "weights in a format that runs code": (
        _with(f"weights/{uuid4()}/model/pytorch_model.bin"),
        "There is no such member",
    ),
    "weights of a batch of rollouts": (_of_rollouts, "There is no such training run"),
    "weights of no run": (_with(f"weights/{uuid4()}/model/model.safetensors"), "There is no such training run"),
    "a table that there isn't": (_with("tables/accounts.apitoken.jsonl"), "There is no such member"),
    "a file of no version": (_with(f"versions/{uuid4()}/train.jsonl"), "There is no such frozen version"),
    "another file of a frozen version": (_swapped, "is missing, or differs"),
    "JSON that is nested too deeply": (_deep, "Nested deeper"),
    "a member twice": (_twice, "Two members have the same name"),
    "content that doesn't fit the manifest": (_tampered, "another SHA-256"),
    "no trajectories to the rows": (_without("trajectories.jsonl"), "There is no line for it"),
    "nobody": (_without("people.jsonl"), "a person whom the archive doesn't name"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_that_is_wrong_is_refused(members: Members, case: str):
    make, words = BAD_FILES[case]
    assert words in refused(make(members))


def test_an_archive_that_unpacks_to_more_than_allowed_is_refused(members: Members, settings: Any):
    settings.IMPORT_MAX_UNPACKED_BYTES = 10_000
    assert "Unpacked, it has" in refused(packed({**members, "originals.jsonl": b" " * 10_001}))


def test_lines_have_a_limit_of_bytes_and_of_values(members: Members, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archive_reader, "MAX_VALUES", 50)
    assert "too many values" in refused(packed(members))


def test_a_trajectory_may_have_more_values_than_a_row(members: Members, monkeypatch: pytest.MonkeyPatch):
    """One of a session has millions of token ids."""
    monkeypatch.setattr(archive_reader, "MAX_VALUES", 5000)
    lines = rows(members, "trajectories.jsonl")
    next(line["steps"] for line in lines if line["steps"])[0]["info"] = {"token_ids": [1] * 6000}
    job = imported(packed(with_rows(members, "trajectories.jsonl", lines)), factories.member(Role.OWNER))
    assert job.state == "done", job.error


def test_a_workspace_with_content_is_refused(members: Members):
    elsewhere = factories.member(Role.OWNER)
    Policy.objects.create(workspace=elsewhere.workspace, name="mine", kind="external")
    stored = store(ContentFile(packed(members)), filename="workspace.zip")
    with pytest.raises(NotEmpty, match="has content already"):
        request_import(stored=stored, by=elsewhere)
    assert not default_storage.exists(stored.name)
    assert Policy.objects.filter(workspace=elsewhere.workspace).count() == 1


def test_a_workspace_that_got_content_since_is_refused(members: Members):
    elsewhere = factories.member(Role.OWNER)
    job = request_import(stored=store(ContentFile(packed(members)), filename="a.zip"), by=elsewhere)
    Policy.objects.create(workspace=elsewhere.workspace, name="mine", kind="external")
    import_workspace(str(job.pk))
    job.refresh_from_db()
    assert "already" in job.error
    assert Policy.objects.filter(workspace=elsewhere.workspace).count() == 1


def test_a_second_import_waits_for_the_first(members: Members):
    elsewhere = factories.member(Role.OWNER)
    request_import(stored=store(ContentFile(packed(members)), filename="a.zip"), by=elsewhere)
    with pytest.raises(AnotherImport):
        request_import(stored=store(ContentFile(packed(members)), filename="b.zip"), by=elsewhere)


def test_an_import_whose_worker_was_killed_is_done_by_the_next(members: Members):
    elsewhere = factories.member(Role.OWNER)
    job = request_import(stored=store(ContentFile(packed(members)), filename="a.zip"), by=elsewhere)
    host = lifecycle.this_worker().rpartition(":")[0]
    assert lifecycle.claim(IMPORTS, job.pk, worker=f"{host}:4194300")  # above the largest possible process id
    assert import_workspace(str(job.pk))
    job.refresh_from_db()
    assert (job.state, job.attempt) == ("done", 2)
    assert not import_workspace(str(job.pk))


def test_an_export_whose_worker_was_killed_is_done_by_the_next(owner: Membership, things: dict[str, Any]):
    export = request_export(by=owner)
    assert request_export(by=owner) == export
    assert request_export(by=owner, include_weights=True).include_weights
    host = lifecycle.this_worker().rpartition(":")[0]
    assert lifecycle.claim(EXPORTS, export.pk, worker=f"{host}:4194300")
    assert export_workspace(str(export.pk))
    export.refresh_from_db()
    assert (export.state, export.attempt, export.phase) == ("done", 2, Phase.DONE)
    assert default_storage.size(export.file) == export.size
    actions = AuditEntry.objects.filter(workspace=owner.workspace).values_list("action", flat=True)
    assert {"asked to export", "exported"} <= set(actions)


def test_a_cancelled_import_leaves_nothing(members: Members):
    elsewhere = factories.member(Role.OWNER)
    job = request_import(stored=store(ContentFile(packed(members)), filename="a.zip"), by=elsewhere)
    lifecycle.cancel(job, by=elsewhere.user)
    assert not import_workspace(str(job.pk))
    assert not any(table.rows(elsewhere.workspace).exists() for table in TABLES)
    assert Import.objects.get(pk=job.pk).state == "cancelled"


def test_a_member_that_is_compressed_too_well_is_refused(members: Members, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archive_reader, "RATIO_FROM", 100_000)
    assert "compressed more than 500-fold" in refused(packed({**members, "originals.jsonl": b" " * 10_000_000}))


def test_an_error_that_nobody_thought_of_is_a_failure_in_words(members: Members, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("apps.transfer.loader.Reading.values", broken)
    assert refused(packed(members)).startswith("The archive can't be read (RecursionError)")


def test_people_of_an_earlier_import_are_the_same_people():
    """Its rows may have been deleted since; the people stay."""
    workspace = factories.workspace()
    person = {"email": "somebody@example.org", "name": "Somebody", "role": None}
    readers = [people.Reader(workspace) for _ in range(2)]
    for reader in readers:
        reader.add(person, "line 1")
    first, second = (reader.id_of(person["email"]) for reader in readers)
    assert first == second
