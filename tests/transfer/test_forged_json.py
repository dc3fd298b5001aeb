"""JSON that pages, REST, or workers couldn't read is refused before it's stored."""

import hashlib
import json
from typing import Any
from uuid import UUID

import pytest

from apps.accounts.models import Role
from apps.datasets.files.splitfiles import content_hash
from apps.datasets.models import Split
from apps.training.models import Run
from apps.trajectories.models import Trajectory
from apps.transfer.json_columns import SHAPES
from apps.transfer.loader import MISFITS
from apps.transfer.shapes import Shape, any_value
from apps.transfer.tables import TABLES
from tests import factories
from tests.transfer.archives import Members, changed, imported, packed, refused, rows, table, with_rows

pytestmark = pytest.mark.django_db

COLUMNS = [
    (table.label, name, shape)
    for table in TABLES
    for name, shape in SHAPES.get(table.model, {}).items()
    if shape is not any_value
]
MISSHAPEN = ("text", 5, [5], [[]])


@pytest.mark.parametrize(("label", "column", "shape"), COLUMNS, ids=lambda part: part if isinstance(part, str) else "")
def test_json_of_another_shape_is_refused(members: Members, label: str, column: str, shape: Shape):
    """An import reads all columns alike, so each tries one of the values in an archive."""
    for wrong in MISSHAPEN:
        with pytest.raises(MISFITS):
            shape(wrong)
    wrong = MISSHAPEN[COLUMNS.index((label, column, shape)) % len(MISSHAPEN)]
    assert f"{column}: " in refused(changed(members, label, **{column: wrong}))


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "a report whose figures are text": ("policies.policy", {"report": {"seconds": "long"}}),
    "a report without what its pages need": ("policies.policy", {"report": {"calibration": {"bins": [{}]}}}),
    "a number of 300 digits": ("policies.policy", {"settings": {"parameters": 10**300}}),
    "answers that are objects": ("annotation.preference", {"answers": {"why": {}}}),
    "answers about a step that has no number": ("annotation.rating", {"step_answers": {"x": {}}}),
    "a correction with calls that are none": ("annotation.correction", {"message": {"tool_calls": [5]}}),
    "a correction of another role": ("annotation.correction", {"message": {"role": "king"}}),
    "a question of a type that there isn't": (
        "annotation.queue",
        {"asks": {"questions": [{"name": "a", "type": "x"}]}},
    ),
    "a scale of as many points as fit": (
        "annotation.queue",
        {"asks": {"questions": [{"key": "a", "name": "a", "points": 10**9, "type": "scale"}]}},
    ),
    "more alternatives than a form allows": (
        "annotation.queue",
        {"kind": "steps", "asks": {"alternatives": {"policy": str(UUID(int=1)), "count": 32_767, "temperature": 1.0}}},
    ),
    "more episodes than a batch may have": (
        "trajectories.rolloutbatch",
        {"config": {"tasks": {"count": 1000}, "samples": 1000}},
    ),
    "a million episodes at once": ("trajectories.rolloutbatch", {"config": {"parallel": 10**6}}),
    "a selection without its parts": ("annotation.queue", {"selection": {"selection": {}}}),
    "a pairing with another rule": ("annotation.queue", {"selection": {"pairing": {"x": 1}}}),
    "a stopping rule that can't be computed": ("arena.experiment", {"plan": {"rule": {"alpha": 0}}}),
    "a plan without bounds": ("arena.experiment", {"plan": {"source": "live", "tasks": 10**9}}),
    "too many ties": ("arena.experiment", {"alike": [["a", 0]] * 100_001}),
    "a tie of one": ("arena.experiment", {"alike": [["a"]]}),
    "a verdict of nothing": ("arena.experiment", {"verdict": {"winner": "a"}}),
    "a reply that isn't one": ("gateway.call", {"status": "ok", "reply": {"choices": []}}),
    "messages that are text": ("gateway.call", {"messages": ["hello"]}),
    "rewards that are text": ("gateway.session", {"rewards": {"a": "much"}}),
    "a metric that is a list": ("training.metric", {"values": {"loss": [1]}}),
    "a setting that is an object": ("training.runevent", {"details": {"setting": {}}}),
    "a config of text": ("training.run", {"config": {"optimizer": "fast"}}),
    "a failure with a log of numbers": ("training.run", {"failure": {"log": [1]}}),
    "more tags than fit": ("trajectories.trajectory", {"tags": [str(n) for n in range(201)]}),
    "warnings that are objects": ("trajectories.importbatch", {"warnings": [{}]}),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_its_readers_could_not_read_is_refused(members: Members, case: str):
    label, values = WRONG[case]
    assert "don't fit together" in refused(changed(members, label, **values))


def test_the_tools_of_a_call_are_whatever_its_agent_sent(members: Members):
    """Servers refuse most of it, and the refused call is recorded."""
    for tools in ({"a": 1}, "auto", [5]):
        job = imported(changed(members, "gateway.call", tools=tools), factories.member(Role.OWNER))
        assert job.state == "done", job.error


def _frozen(members: Members, **values: Any) -> bytes:
    rows = table(members, "datasets.version")
    made = [{**row, **values} if row["state"] == "frozen" else row for row in rows]
    return packed(with_rows(members, "tables/datasets.version.jsonl", made))


def test_a_frozen_version_has_a_card_that_can_be_shown(members: Members):
    card = next(row["card"] for row in table(members, "datasets.version") if row["state"] == "frozen")
    for wrong in (
        {},
        {**card, "annotators": [{}]},
        {**card, "dropped": {"odd": 1}},
        {**card, "agreement": {"people": 5}},
    ):
        assert "don't fit together" in refused(_frozen(members, card=wrong))
    assert "other numbers of rows" in refused(_frozen(members, row_counts={"train": 0, "validation": 0, "test": 0}))


def test_times_measured_elsewhere_say_nothing_about_this_installation(members: Members):
    """Forecasts use the runs of all workspaces."""
    owner = factories.member(Role.OWNER)
    done = {"state": "finished", "finished_at": "2026-01-01T00:00:00+00:00", "step_seconds": 1.5}
    job = imported(changed(members, "training.run", **done), owner)
    assert job.state == "done", job.error
    assert Run.objects.get(workspace=owner.workspace, state="finished").step_seconds is None


def test_halves_of_surrogate_pairs_are_no_reason_to_refuse(members: Members):
    half = json.loads('"\\ud83d"')
    owner = factories.member(Role.OWNER)
    assert imported(changed(members, "annotation.correction", message={"content": half}), owner).state == "done"


def _with_other_rows(members: Members, rewrite: Any) -> bytes:
    """An archive with other lines in the training split of its frozen version, and matching hashes."""
    frozen = next(row for row in table(members, "datasets.version") if row["state"] == "frozen")
    name = f"versions/{frozen['id']}/train.jsonl"
    body = rewrite(members[name])
    facts = frozen["files"]["jsonl"]["train"]
    facts |= {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    sums = {split: frozen["files"]["jsonl"][split]["sha256"] for split in Split}
    return _frozen({**members, name: body}, files=frozen["files"], content_hash=content_hash(sums))


def test_rows_of_frozen_versions_are_ones_that_pages_and_training_read(members: Members, settings: Any):
    assert imported(_with_other_rows(members, bytes), factories.member(Role.OWNER)).state == "done"
    assert "It isn't a row" in refused(_with_other_rows(members, lambda body: b"{}" + body[body.index(b"\n") :]))
    assert "line 1: Not JSON" in refused(_with_other_rows(members, lambda body: b"x" + body))
    assert "lines. Expected" in refused(_with_other_rows(members, lambda body: body + body))
    settings.IMPORT_MAX_RECORD_BYTES = 5000
    long = _with_other_rows(members, lambda body: b" " * 20_000 + body)
    assert "The line is too long" in refused(long)


def test_rewards_that_are_no_numbers_are_left_out_as_in_every_import(members: Members):
    owner = factories.member(Role.OWNER)
    first, *rest = table(members, "trajectories.trajectory")
    lines = rows(members, "trajectories.jsonl")
    lines[0]["steps"][0]["reward"] = "NaN"
    members = with_rows(members, "trajectories.jsonl", lines)
    members = with_rows(members, "tables/trajectories.trajectory.jsonl", [{**first, "reward": "nan"}, *rest])
    job = imported(packed(members), owner)
    assert job.state == "done", job.error
    trajectory = Trajectory.objects.filter(workspace=owner.workspace).order_by("pk").first()
    assert trajectory is not None
    assert trajectory.reward is None
    assert trajectory.steps.order_by("index").values_list("reward", flat=True)[0] is None
