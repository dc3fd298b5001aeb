"""Imports on pages and over REST: permissions, content, and refusals."""

import errno
import gzip
import json
import os
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from apps.accounts.api_tokens import issue_token
from apps.accounts.models import Membership, Role
from apps.common import disk
from apps.jobs.models import JobState
from apps.trajectories.imports.import_job import run_import
from apps.trajectories.imports.upload import start_import, store
from apps.trajectories.models import ImportBatch, Trajectory
from tests import factories
from tests.accounts.clients import body_of

pytestmark = pytest.mark.django_db

CHAT = {"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]}


def chat_file(*rows: object, name: str = "chats.jsonl") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, b"".join(json.dumps(row).encode() + b"\n" for row in rows or (CHAT,)))


def batch_of(workspace, *rows: object, **fields: object) -> ImportBatch:
    file = chat_file(*rows)
    stored = store(file, filename=file.name or "")
    return start_import(workspace_id=workspace.pk, stored=stored, created_by=None, queue=False)


def bearer(member: Membership) -> dict[str, str]:
    return {"HTTP_AUTHORIZATION": f"Bearer {issue_token(membership=member, name='tests').secret}"}


def ignore(batch: ImportBatch) -> None:
    """Watches nothing."""


@pytest.fixture
def researcher(client: Client):
    member = factories.member(Role.RESEARCHER)
    client.force_login(member.user)
    return member


def test_an_uploaded_file_is_queued_and_its_page_opens(
    client, researcher, django_capture_on_commit_callbacks, monkeypatch
):
    messages: list[tuple[str, list[str]]] = []
    monkeypatch.setattr("workers.app.app.send_task", lambda name, args: messages.append((name, list(args))))
    with django_capture_on_commit_callbacks(execute=True):
        answer = client.post(reverse("trajectories:imports"), {"uploads": [chat_file()]})
    batch = ImportBatch.objects.get()
    assert answer.status_code == 302
    assert answer.url == reverse("trajectories:import", args=[batch.pk])
    assert messages == [("imports.run", [str(batch.pk)])]
    page = client.get(answer.url)
    assert page.status_code == 200
    assert b"chats.jsonl" in page.content
    assert b"Waiting for a worker" in page.content


def test_several_files_are_several_imports(client, researcher):
    files = [chat_file(name="a.jsonl"), chat_file(name="b.jsonl")]
    answer = client.post(reverse("trajectories:imports"), {"uploads": files})
    assert answer.status_code == 302
    assert sorted(ImportBatch.objects.values_list("filename", flat=True)) == ["a.jsonl", "b.jsonl"]


def test_a_form_without_a_file_is_answered_with_its_error(client, researcher):
    answer = client.post(reverse("trajectories:imports"), {})
    assert answer.status_code == 422
    assert ImportBatch.objects.count() == 0


def test_a_file_over_the_limit_is_refused_and_leaves_nothing(client, researcher, settings):
    settings.IMPORT_MAX_BYTES = 20
    answer = client.post(reverse("trajectories:imports"), {"uploads": [chat_file()]})
    assert answer.status_code == 422
    assert b"larger than" in answer.content
    assert ImportBatch.objects.count() == 0
    folder = Path(settings.STORAGES["default"]["OPTIONS"]["location"])
    assert [path for path in folder.rglob("*") if path.is_file()] == []


@pytest.fixture
def full_disk(monkeypatch):
    """The disk is full after half of a file."""
    opened = os.fdopen

    class HalfWritten:
        def __init__(self, descriptor: int, mode: str) -> None:
            self.file = opened(descriptor, mode)
            self.close = self.file.close

        def write(self, block: bytes) -> None:
            self.file.write(block[: len(block) // 2])
            self.file.flush()
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("django.core.files.storage.filesystem.os.fdopen", HalfWritten)


def stored_files(settings) -> list[Path]:
    folder = Path(settings.STORAGES["default"]["OPTIONS"]["location"])
    return [path for path in folder.rglob("*") if path.is_file()]


def test_on_a_full_disk_the_form_says_so_and_nothing_is_left(client, researcher, settings, full_disk):
    answer = client.post(reverse("trajectories:imports"), {"uploads": [chat_file()]})
    assert answer.status_code == 507
    assert "chats.jsonl: The server&#x27;s disk is full, so nothing was saved." in answer.content.decode()
    assert (ImportBatch.objects.count(), stored_files(settings)) == (0, [])


@pytest.mark.parametrize("name", ["../../etc/passwd", "C:\\temp\\..\\x.jsonl", "a\x00b.jsonl", "/abs/olute.jsonl"])
def test_the_name_of_a_file_never_says_where_it_goes(name, settings):
    stored = store(chat_file(), filename=name)
    folder = Path(settings.STORAGES["default"]["OPTIONS"]["location"])
    inside = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    assert [str(path) for path in inside] == [stored.name]
    assert stored.name.startswith("imports/")
    assert "/" not in stored.filename
    assert "\\" not in stored.filename
    assert ".." not in stored.name


@pytest.mark.parametrize("role", [Role.ANNOTATOR, Role.REVIEWER])
def test_who_is_no_researcher_finds_no_imports(client, role):
    member = factories.member(role)
    batch = batch_of(member.workspace)
    client.force_login(member.user)
    assert client.get(reverse("trajectories:imports")).status_code == 404
    assert client.post(reverse("trajectories:imports"), {"uploads": [chat_file()]}).status_code == 404
    assert client.get(reverse("trajectories:import", args=[batch.pk])).status_code == 404


@pytest.mark.parametrize(
    ("method", "name", "more"),
    [
        ("get", "import", []),
        ("get", "import_progress", []),
        ("post", "cancel_import", []),
        ("post", "retry_import", []),
        ("get", "rejected_rows", ["csv"]),
    ],
)
def test_an_outsider_finds_nothing(client, researcher, method, name, more):
    foreign = batch_of(factories.workspace())
    answer = getattr(client, method)(reverse(f"trajectories:{name}", args=[foreign.pk, *more]))
    assert answer.status_code == 404
    foreign.refresh_from_db()
    assert foreign.state == JobState.WAITING


def test_a_finished_import_shows_what_came_in_and_what_did_not(client, researcher):
    batch = batch_of(
        researcher.workspace, CHAT, {"messages": [{"role": "pirate", "content": "<script>alert(1)</script>"}]}
    )
    run_import(batch.pk, watch=ignore)
    page = client.get(reverse("trajectories:import", args=[batch.pk])).content.decode()
    assert "The whole file was processed. 1 row was rejected, for the reason below." in page
    assert "A message has the role “pirate”." in page
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "data-live-end" in page


def test_an_import_tells_its_tasks_and_its_warnings(client, researcher):
    batch = batch_of(researcher.workspace, CHAT, {**CHAT, "id": "<b>2</b>", "reward": "nan"})
    run_import(batch.pk, watch=ignore)
    page = client.get(reverse("trajectories:import", args=[batch.pk])).content.decode()
    assert '<span class="figure">1</span><span class="name">task</span>' in page
    assert "<h2>Warnings</h2>" in page
    assert "Line 2: The reward of the run is NaN; it is kept without a reward." in page


def test_a_file_of_no_known_format_leads_to_the_list_of_formats(client, researcher):
    batch = batch_of(researcher.workspace, {"spans": []})
    run_import(batch.pk, watch=ignore)
    page = client.get(reverse("trajectories:import", args=[batch.pk])).content.decode()
    assert "No known format: the first record has the keys `spans`." in page
    assert f'<a href="{reverse("trajectories:imports")}#formats">Supported formats</a>' in page


def test_the_number_of_a_line_is_exact(client, researcher):
    batch = batch_of(researcher.workspace, CHAT)
    batch.rejected_rows.create(position=0, line=123_456, reason="r", expected="e")
    ImportBatch.objects.filter(pk=batch.pk).update(rejected_count=1)
    page = " ".join(client.get(reverse("trajectories:import", args=[batch.pk])).content.decode().split())
    assert "Line 123,456<" in page


def test_rejected_rows_download_as_csv_and_json_lines(client, researcher):
    batch = batch_of(researcher.workspace, CHAT, ["=HYPERLINK(1)"], {"messages": []})
    run_import(batch.pk, watch=ignore)
    csv = client.get(reverse("trajectories:rejected_rows", args=[batch.pk, "csv"]))
    assert csv.headers["Content-Disposition"] == f'attachment; filename="rejected-{batch.pk}.csv"'
    lines = body_of(csv).decode().splitlines()
    assert lines[0] == "line,reason,expected,excerpt"
    assert lines[1].startswith("2,")
    jsonl = client.get(reverse("trajectories:rejected_rows", args=[batch.pk, "jsonl"]))
    rows = [json.loads(line) for line in body_of(jsonl).splitlines()]
    assert [row["line"] for row in rows] == [2, 3]
    assert rows[0]["excerpt"] == '["=HYPERLINK(1)"]'
    assert rows[1]["reason"] == "There are no messages."
    assert client.get(f"/imports/{batch.pk}/rejected.exe").status_code == 404


def test_a_cell_that_a_spreadsheet_would_run_is_made_inert(client, researcher):
    batch = batch_of(researcher.workspace)
    batch.rejected_rows.create(position=0, line=1, reason="r", expected="e", excerpt="=cmd|' /C calc'!A0")
    batch.rejected_count = 1
    batch.save()
    written = body_of(client.get(reverse("trajectories:rejected_rows", args=[batch.pk, "csv"]))).decode()
    assert written.splitlines()[1] == "1,r,e,'=cmd|' /C calc'!A0"


def test_an_import_can_be_stopped_and_taken_up_again(client, researcher):
    batch = batch_of(researcher.workspace)
    client.post(reverse("trajectories:cancel_import", args=[batch.pk]))
    batch.refresh_from_db()
    assert batch.state == JobState.CANCELLED
    assert run_import(batch.pk, watch=ignore) is None
    client.post(reverse("trajectories:retry_import", args=[batch.pk]))
    batch.refresh_from_db()
    assert batch.state == JobState.WAITING


class TestApi:
    """POST /api/v1/imports with a bearer token."""

    @pytest.fixture
    def token(self):
        return bearer(factories.member(Role.RESEARCHER))

    def send(self, client: Client, body: bytes, token, **more: object):
        return client.post(
            "/api/v1/imports?filename=chats.jsonl", body, content_type="application/octet-stream", **token, **more
        )

    def test_the_body_is_the_file(self, client, token):
        answer = self.send(client, json.dumps(CHAT).encode(), token)
        assert answer.status_code == 202
        data = answer.json()
        assert (data["state"], data["file"], data["trajectories"]) == ("waiting", "chats.jsonl", 0)
        assert data["url"] == answer.headers["Location"] == f"http://testserver/api/v1/imports/{data['id']}"
        run_import(data["id"], watch=ignore)
        done = client.get(data["url"], **token).json()
        assert (done["state"], done["format"], done["trajectories"], done["steps"]) == ("done", "openai-chat", 1, 1)
        assert (done["tasks"], done["warning_count"], done["warnings"]) == (1, 0, [])

    def test_a_form_does_too(self, client, token):
        answer = client.post("/api/v1/imports", {"file": chat_file(name="mine.jsonl")}, **token)
        assert (answer.status_code, answer.json()["file"]) == (202, "mine.jsonl")

    def test_a_form_without_the_part_says_so(self, client, token):
        answer = client.post("/api/v1/imports", {"other": chat_file()}, **token)
        assert (answer.status_code, answer.json()["detail"]) == (400, "file: The form has no part called `file`.")

    def test_what_curl_sends_by_default_is_a_file_too(self, client, token):
        answer = client.post(
            "/api/v1/imports", json.dumps(CHAT), content_type="application/x-www-form-urlencoded", **token
        )
        assert answer.status_code == 202
        assert answer.json()["size"] == len(json.dumps(CHAT))

    def test_the_same_file_again_answers_the_same_import(self, client, token):
        first = self.send(client, json.dumps(CHAT).encode(), token)
        second = self.send(client, json.dumps(CHAT).encode(), token)
        assert (first.status_code, second.status_code) == (202, 200)
        assert first.json()["id"] == second.json()["id"]
        assert ImportBatch.objects.count() == 1

    def test_a_finished_import_whose_trajectories_are_gone_is_done_again(self, client, token):
        first = self.send(client, json.dumps(CHAT).encode(), token).json()
        run_import(first["id"], watch=ignore)
        Trajectory.objects.all().delete()
        assert self.send(client, json.dumps(CHAT).encode(), token).status_code == 202

    def test_so_is_one_that_only_repeated_trajectories_which_are_gone(self, client, token):
        body = json.dumps(CHAT).encode()
        for file in (body + b"\n", body):
            run_import(self.send(client, file, token).json()["id"], watch=ignore)
        assert [batch.duplicate_count for batch in ImportBatch.objects.order_by("pk")] == [0, 1]
        Trajectory.objects.all().delete()
        assert self.send(client, body, token).status_code == 202

    def test_the_same_key_answers_the_same_import_whatever_the_body(self, client, token):
        first = self.send(client, b"{}", token, HTTP_IDEMPOTENCY_KEY="k1")
        second = self.send(client, b"[]", token, HTTP_IDEMPOTENCY_KEY="k1")
        assert (first.status_code, second.status_code) == (202, 200)
        assert first.json()["id"] == second.json()["id"]

    def test_two_keys_that_begin_alike_are_never_taken_for_one(self, client, token):
        long = ["k" * 200 + end for end in "ab"]
        answers = [self.send(client, b"{}", token, HTTP_IDEMPOTENCY_KEY=key) for key in [*long, "k" * 200]]
        assert [answer.status_code for answer in answers] == [400, 400, 202]
        assert answers[0].json()["fields"] == {"Idempotency-Key": ["It has 201 characters; 200 fit."]}

    def test_a_file_over_the_limit_is_413(self, client, token, settings):
        settings.IMPORT_MAX_BYTES = 10
        answer = self.send(client, json.dumps(CHAT).encode(), token)
        assert answer.status_code == 413
        assert "larger than" in answer.json()["detail"]
        assert ImportBatch.objects.count() == 0

    def test_on_a_full_disk_it_is_507_and_nothing_is_left(self, client, token, settings, full_disk):
        client.raise_request_exception = False
        answer = self.send(client, json.dumps(CHAT).encode(), token)
        assert (answer.status_code, answer.json()) == (507, {"detail": disk.FULL})
        assert (ImportBatch.objects.count(), stored_files(settings)) == (0, [])

    def test_without_a_token_nothing_goes_in(self, client):
        answer = self.send(client, b"{}", {})
        assert answer.status_code == 401
        assert ImportBatch.objects.count() == 0

    @pytest.mark.parametrize("role", [Role.ANNOTATOR, Role.REVIEWER])
    def test_lower_roles_find_nothing(self, client, role):
        token = bearer(factories.member(role))
        assert self.send(client, b"{}", token).status_code == 404
        assert client.get("/api/v1/imports", **token).status_code == 404

    def test_an_outsider_finds_nothing(self, client, token):
        foreign = batch_of(factories.workspace())
        assert client.get(f"/api/v1/imports/{foreign.pk}", **token).status_code == 404
        assert client.get(f"/api/v1/imports/{foreign.pk}/rejected", **token).status_code == 404
        assert client.get("/api/v1/imports", **token).json()["results"] == []

    def test_rejected_rows_are_json_lines_or_csv(self, client, token):
        data = self.send(client, gzip.compress(b'{"messages": []}\n' + json.dumps(CHAT).encode()), token).json()
        run_import(data["id"], watch=ignore)
        rows = client.get(f"/api/v1/imports/{data['id']}/rejected", **token)
        assert json.loads(body_of(rows))["reason"] == "There are no messages."
        assert client.get(f"/api/v1/imports/{data['id']}/rejected?format=csv", **token).status_code == 200
        assert client.get(f"/api/v1/imports/{data['id']}/rejected?format=pdf", **token).status_code == 400
