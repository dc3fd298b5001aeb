"""The settings page and REST: only for owners, with a recent password confirmation, in ranges, and until the archive expires."""

import hashlib
from datetime import timedelta

import pytest
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils.timezone import now

from apps.accounts.models import AuditEntry, Membership, Role
from apps.accounts.recent_sign_in import GIVEN_AT
from apps.redaction.rules import add_rule, redacted
from apps.transfer.export_job import expire, export_workspace
from apps.transfer.import_job import import_workspace
from apps.transfer.models import Export, Import
from tests import factories
from tests.accounts.clients import as_, body_of
from tests.transfer.archives import exported, imported

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner() -> Membership:
    member = factories.member(Role.OWNER)
    factories.imported_run([{"context": [], "message": factories.assistant_message("Hello.")}], of=member.workspace)
    return member


def by_token(member: Membership) -> Client:
    return Client(headers={"Authorization": f"Bearer {factories.token(member)}"})


def finished(owner: Membership) -> Export:
    exported(owner)
    return Export.objects.filter(workspace=owner.workspace).latest("pk")


def test_an_owner_exports_and_downloads_on_the_page(owner: Membership):
    client = as_(owner)
    client.post(reverse("transfer:new_export"))
    export = Export.objects.get(workspace=owner.workspace)
    page = client.get(reverse("transfer:transfer")).content.decode()
    assert "Waiting" in page
    export_workspace(str(export.pk))
    export.refresh_from_db()
    page = client.get(reverse("transfer:transfer")).content.decode()
    address = reverse("transfer:archive", args=[export.pk])
    assert address in page
    body = body_of(client.get(address))
    assert (len(body), hashlib.sha256(body).hexdigest()) == (export.size, export.sha256)


def test_the_password_is_asked_for_before_an_export_and_an_import(owner: Membership):
    client = as_(owner)
    session = client.session
    session[GIVEN_AT] -= 4 * 3600
    session.save()
    for name in ("new_export", "new_import"):
        answer = client.post(reverse(f"transfer:{name}"))
        assert "confirm_password" in answer.content.decode()
    assert not Export.objects.exists()


def test_a_download_goes_on_where_it_broke(owner: Membership):
    export = finished(owner)
    address = f"/api/v1/workspace/exports/{export.pk}/archive"
    client = by_token(owner)
    whole = body_of(client.get(address))
    part = client.get(address, headers={"Range": "bytes=100-", "If-Range": f'"{export.sha256}"'})
    assert (part.status_code, body_of(part)) == (206, whole[100:])
    assert part["Content-Range"] == f"bytes 100-{export.size - 1}/{export.size}"
    assert client.get(address, headers={"Range": f"bytes={export.size}-"}).status_code == 416


@pytest.mark.parametrize("role", [Role.ANNOTATOR, Role.REVIEWER, Role.RESEARCHER, None])
def test_nobody_else_finds_anything(owner: Membership, role: Role | None):
    export = finished(owner)
    member = factories.member(role, of=owner.workspace) if role else factories.member(Role.OWNER)
    rest, pages = by_token(member), as_(member)
    one = f"/api/v1/workspace/exports/{export.pk}"
    for address in (one, f"{one}/archive"):
        assert rest.get(address).status_code == 404
    assert rest.post(f"{one}/delete").status_code == 404
    assert pages.get(reverse("transfer:archive", args=[export.pk])).status_code == 404
    assert pages.post(reverse("transfer:delete_archive", args=[export.pk])).status_code == 404
    if role:
        assert rest.post("/api/v1/workspace/exports").status_code == 404
        assert rest.post("/api/v1/workspace/imports", b"PK", content_type="application/zip").status_code == 404
        assert pages.get(reverse("transfer:transfer")).status_code == 404
    assert default_storage.exists(export.file)


def test_an_archive_is_deleted_by_its_owner(owner: Membership, django_capture_on_commit_callbacks):
    export = finished(owner)
    client = by_token(owner)
    with django_capture_on_commit_callbacks(execute=True):
        answer = client.post(f"/api/v1/workspace/exports/{export.pk}/delete")
    assert answer.json()["has_archive"] is False
    assert not default_storage.exists(export.file)
    assert client.get(f"/api/v1/workspace/exports/{export.pk}/archive").status_code == 409
    assert AuditEntry.objects.filter(workspace=owner.workspace, action="deleted the archive of").exists()


def test_an_archive_that_is_still_being_written_is_not_reported_as_deleted(owner: Membership):
    client = by_token(owner)
    address = f"/api/v1/workspace/exports/{client.post('/api/v1/workspace/exports').json()['id']}"
    refused = client.post(f"{address}/delete")
    assert refused.status_code == 409
    cancelling = refused.json()["detail"].split("POST ")[1].split(",")[0]
    assert client.post(cancelling).status_code == 200
    assert client.post(f"{address}/delete").status_code == 200


def test_an_archive_is_deleted_after_a_week(owner: Membership):
    export = finished(owner)
    assert export.expires_at is not None
    assert export.expires_at > now() + timedelta(days=6)
    expire()
    assert default_storage.exists(export.file)
    Export.objects.update(expires_at=now() - timedelta(seconds=1))
    expire()
    assert not default_storage.exists(export.file)
    assert Export.objects.get().file == ""


def test_an_archive_is_imported_on_the_page_of_an_empty_workspace(owner: Membership):
    archive = exported(owner)
    elsewhere = factories.member(Role.OWNER)
    client = as_(elsewhere)
    sent = SimpleUploadedFile("moved.zip", archive)
    assert client.post(reverse("transfer:new_import"), {"archive": sent}).status_code == 302
    job = Import.objects.get()
    import_workspace(str(job.pk))
    page = client.get(reverse("transfer:transfer")).content.decode()
    assert "moved.zip: done" in page
    assert owner.user.email in page  # whom to invite
    assert owner.workspace.memberships.count() == elsewhere.workspace.memberships.count() == 1


def test_the_page_refuses_an_archive_where_there_is_content(owner: Membership):
    sent = SimpleUploadedFile("moved.zip", exported(owner))
    answer = as_(owner).post(reverse("transfer:new_import"), {"archive": sent})
    assert answer.status_code == 422
    assert "already. An archive is imported only into a workspace without content" in answer.content.decode()


def test_rest_takes_the_archive_as_its_body_or_in_a_form(owner: Membership):
    archive = exported(owner)
    first, second = factories.member(Role.OWNER), factories.member(Role.OWNER)
    address = "/api/v1/workspace/imports"
    sent = by_token(first).post(f"{address}?filename=a.zip", archive, content_type="application/octet-stream")
    assert (sent.status_code, sent.json()["filename"], sent.json()["size"]) == (202, "a.zip", len(archive))
    form = by_token(second).post(address, {"file": SimpleUploadedFile("b.zip", archive)})
    assert (form.status_code, form.json()["filename"]) == (202, "b.zip")
    import_workspace(sent.json()["id"])
    done = by_token(first).get(f"{address}/{sent.json()['id']}").json()
    assert (done["state"], done["counts"]["trajectories.trajectory"]) == ("done", 1)
    assert by_token(first).post(address, archive, content_type="application/octet-stream").status_code == 409


def test_redaction_rules_hold_from_the_import_on(owner: Membership):
    add_rule(workspace=owner.workspace, by=owner.user, name="ticket", pattern="T-[0-9]+")
    elsewhere = factories.member(Role.OWNER)
    assert redacted(elsewhere.workspace.pk, "T-1") == "T-1"
    imported(exported(owner), elsewhere)
    assert redacted(elsewhere.workspace.pk, "T-1") != "T-1"
