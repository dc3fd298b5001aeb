"""Work that workers do for all workspaces continues, whatever rows somebody imported into one of them."""

import io
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core.files.base import ContentFile
from django.utils.timezone import now

from apps.accounts.models import Role
from apps.annotation.desk import assignments
from apps.annotation.models import Assignment, Item
from apps.arena.lifecycle import resume_failed
from apps.arena.models import Experiment
from apps.jobs import lifecycle
from apps.jobs.models import Job
from apps.redaction.rules import MAX_RULES
from apps.trajectories.imports.upload import store
from apps.trajectories.models import Trajectory
from apps.transfer import archive_reader, consistency
from apps.transfer.archive_reader import ArchiveReader
from apps.transfer.export_job import EXPORTS, request_export
from apps.transfer.ids import Ids
from apps.transfer.import_job import IMPORTS, request_import
from apps.transfer.tables import TABLES
from tests import factories
from tests.annotation import builders
from tests.transfer.archives import Members, exported, imported, packed, refused, rows, table, unpacked, with_rows

pytestmark = pytest.mark.django_db


def _name(label: str) -> str:
    return f"tables/{label}.jsonl"


def _id(number: int) -> str:
    return str(UUID(int=(1 << 120) + number))


def _with_more(members: Members, label: str, more: list[dict[str, Any]]) -> Members:
    return with_rows(members, _name(label), [*table(members, label), *more])


def _with_an_open_assignment(members: Members, **item: Any) -> bytes:
    """An archive with a new item that has an open assignment whose lease has expired."""
    pair = next(row for row in table(members, "annotation.item") if row["b"])
    last = table(members, "annotation.item")[-1]["id"]
    new = {**pair, "id": last + 1, "position": 10**9, "a": pair["b"], "b": pair["a"], "overlap": 1, **item}
    held = next(row for row in table(members, "annotation.assignment") if row["item"] == pair["id"])
    held = {**held, "id": _id(1), "item": new["id"], "state": "open", "leased_until": "2001-01-01T00:00:00+00:00"}
    members = _with_more(members, "annotation.item", [new])
    return packed(_with_more(members, "annotation.assignment", [{**held, "replaces": None}]))


def test_each_place_that_may_be_freed_is_taken_whatever_the_archive_says(members: Members):
    owner = factories.member(Role.OWNER)
    archive = _with_an_open_assignment(members, purpose="work", known=None, taken=0, judged=0)
    assert imported(archive, owner).state == "done"
    item = Item.objects.get(queue__workspace=owner.workspace, position=10**9)
    assert (item.taken, item.judged) == (1, 0)


def test_a_wrong_count_keeps_nobody_elses_places():
    wrong, right = builders.queue(items=1), builders.queue(items=1)
    held = [
        assignments.next_assignment(queue=queue, annotator=factories.annotator(of=queue.workspace))
        for queue in (wrong, right)
    ]
    Item.objects.filter(queue=wrong).update(taken=0)
    Assignment.objects.update(leased_until=now() - timedelta(minutes=1))
    assert assignments.expire_leases() == 2
    assert {
        assignment.state
        for assignment in Assignment.objects.filter(pk__in=[assignment.pk for assignment in held if assignment])
    } == {"expired"}
    assert set(Item.objects.values_list("taken", flat=True)) == {0}


def test_lines_that_are_read_together_have_a_bounded_size(members: Members, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archive_reader, "BATCH_BYTES", 1000)
    lines = [b'{"a": "%s"}\n' % (b"x" * size) for size in (400, 400, 400, 3000, 10, 980, 10)]
    name = _name("policies.policy")
    reader = ArchiveReader(io.BytesIO(packed({**members, name: b"".join(lines)})))
    assert [[len(row["a"]) for _, row in batch] for batch in reader.batches(name)] == [
        [400, 400],
        [400],
        [3000],
        [10],
        [980],
        [10],
    ]


def test_trajectories_are_written_a_few_at_a_time_if_they_are_large(members: Members, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("apps.transfer.loader.BATCH_BYTES", 100)
    owner = factories.member(Role.OWNER)
    assert imported(packed(members), owner).state == "done"
    count = len(rows(members, "trajectories.jsonl"))
    assert Trajectory.objects.filter(workspace=owner.workspace).count() == count
    second = unpacked(exported(owner))
    assert len(rows(second, "trajectories.jsonl")) == count


def test_a_batch_ends_at_its_size(members: Members, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archive_reader, "BATCH_BYTES", 1)
    assert imported(packed(members), factories.member(Role.OWNER)).state == "done"


def test_experiments_under_way_are_few_and_small(members: Members, monkeypatch: pytest.MonkeyPatch):
    first = table(members, "arena.experiment")[0]
    under_way = {**first, "state": "labeling", "stopped_at": None, "verdict": {}, "split": None, "queue": None}
    more = [{**under_way, "id": _id(number)} for number in range(3)]
    archive = packed(_with_more(members, "arena.experiment", more))
    owner = factories.member(Role.OWNER)
    assert imported(archive, owner).state == "done"
    assert Experiment.objects.filter(workspace=owner.workspace, state="labeling").count() == 3
    monkeypatch.setattr(consistency, "MAX_ACTIVE", 2)
    assert "3 experiments that are being judged" in refused(archive)
    monkeypatch.undo()
    queue = next(row["queue"] for row in table(members, "annotation.item"))
    more[0]["queue"] = queue
    monkeypatch.setattr(consistency, "MAX_PAIRS", 0)
    assert "pairs of experiments that are being judged. Expected: at most 0" in refused(
        packed(_with_more(members, "arena.experiment", more))
    )


def test_redaction_rules_are_as_few_and_as_small_as_everywhere(members: Members):
    first = table(members, "redaction.redactionrule")[0]
    rule = {**first, "detector": "", "pattern": "a+"}
    many = [{**rule, "id": _id(number), "name": f"rule {number}"} for number in range(MAX_RULES)]
    error = refused(packed(_with_more(members, "redaction.redactionrule", many)))
    assert f"more than {MAX_RULES} rows" in error
    for pattern in ("(", "(a{1,1000}){1,1000}"):
        wrong = {**rule, "id": _id(1), "name": "odd", "pattern": pattern}
        assert "don't fit together" in refused(packed(_with_more(members, "redaction.redactionrule", [wrong])))


def test_an_endpoint_has_as_many_servers_as_everywhere(members: Members):
    first = table(members, "policies.endpoint")[0]
    wide = {**first, "id": _id(1), "name": "wide", "replicas": [f"http://a{n}.example/v1" for n in range(1000)]}
    assert "at most 31" in refused(packed(_with_more(members, "policies.endpoint", [wide])))
    for odd in ("http://a.example:99999/v1", "http://me:secret@a.example/v1", "http://a.example/v1?x=1"):
        for wrong in ({"base_url": odd}, {"replicas": [odd]}):
            row = {**first, "id": _id(1), "name": "odd", **wrong}
            assert "don't fit together" in refused(packed(_with_more(members, "policies.endpoint", [row])))


def test_a_server_may_have_a_name_of_its_network_alone(members: Members):
    """As in compose.yaml."""
    first = table(members, "policies.endpoint")[0]
    own = {
        **first,
        "id": _id(1),
        "name": "own",
        "base_url": "http://vllm:8000/v1",
        "replicas": ["http://vllm_2:8000/v1"],
    }
    job = imported(packed(_with_more(members, "policies.endpoint", [own])), factories.member(Role.OWNER))
    assert job.state == "done", job.error


def test_ids_change_while_another_archive_is_imported(members: Members, monkeypatch: pytest.MonkeyPatch):
    kept: list[bool] = []
    settle = Ids.settle

    def settled(ids: Ids, models: Any, *, may_keep: bool) -> None:
        kept.append(may_keep)
        settle(ids, models, may_keep=may_keep)

    monkeypatch.setattr(Ids, "settle", settled)
    assert imported(packed(members), factories.member(Role.OWNER)).state == "done"
    other = factories.member(Role.OWNER)
    waiting = request_import(stored=store(ContentFile(packed(members)), filename="a.zip"), by=other)
    assert lifecycle.claim(IMPORTS, waiting.pk, worker="elsewhere:1") is not None
    assert imported(packed(members), factories.member(Role.OWNER)).state == "done"
    assert kept == [True, False]


def test_of_a_workspace_one_export_or_import_or_deletion_is_worked_on_at_once(members: Members):
    owner = factories.member(Role.OWNER)
    job = request_import(stored=store(ContentFile(packed(members)), filename="a.zip"), by=owner)
    export = request_export(by=owner)
    assert lifecycle.claim(EXPORTS, export.pk, worker="one:1") is not None
    assert lifecycle.claim(IMPORTS, job.pk, worker="two:2") is None


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("MAX_ENDING", "open queues with an end"),
        ("MAX_OPEN", "open assignments"),
        ("MAX_FEEDBACK", "entries of feedback that aren't judgments yet"),
    ],
)
def test_what_chores_look_at_one_by_one_is_limited(
    members: Members, limit: str, words: str, monkeypatch: pytest.MonkeyPatch
):
    queues = [{**row, "state": "open", "ends_after": 5} for row in table(members, "annotation.queue")]
    members = with_rows(members, _name("annotation.queue"), queues)
    feedback = [{**row, "judged_at": None} for row in table(members, "gateway.feedback")]
    members = with_rows(members, _name("gateway.feedback"), feedback)
    archive = _with_an_open_assignment(members, purpose="work", known=None, taken=1, judged=0)
    assert imported(archive, factories.member(Role.OWNER)).state == "done"
    monkeypatch.setattr(consistency, limit, 0)
    assert words in refused(archive)


@pytest.mark.parametrize(("state", "error"), [("rolling_out", ""), ("failed", "Rollouts did not finish: they failed")])
def test_an_experiment_does_not_wait_for_rollouts_that_ended_elsewhere(members: Members, state: str, error: str):
    first = table(members, "arena.experiment")[0]
    waiting = {**first, "id": _id(1), "state": state, "error": error, "stopped_at": None, "verdict": {}, "queue": None}
    owner = factories.member(Role.OWNER)
    archive = packed(_with_more(members, "arena.experiment", [{**waiting, "split": None}]))
    assert imported(archive, owner).state == "done"
    resume_failed()
    experiment = Experiment.objects.get(workspace=owner.workspace, error__startswith="It was in progress")
    assert experiment.state == "failed"


@pytest.mark.parametrize("label", [table.label for table in TABLES if issubclass(table.model, Job)])
def test_attempts_made_elsewhere_do_not_count(members: Members, label: str):
    """The next attempt would be one too many for the column, and deleting what they stored would take forever."""
    owner = factories.member(Role.OWNER)
    many = [{**row, "attempt": 2**31 - 1} for row in table(members, label)]
    assert many
    job = imported(packed(with_rows(members, _name(label), many)), owner)
    assert job.state == "done", job.error
    model = next(table.model for table in TABLES if table.label == label)
    assert set(model._base_manager.filter(workspace=owner.workspace).values_list("attempt", flat=True)) == {0}
