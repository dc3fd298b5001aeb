"""The import itself: what is stored, what is rejected, and what repeating it adds."""

import gzip
import json
import threading
from pathlib import Path

import pytest
from django.db import connection

from apps.jobs import lanes, lifecycle
from apps.jobs.models import JobState
from apps.policies.models import Policy
from apps.trajectories.imports import import_job, preparation
from apps.trajectories.imports.import_job import run_import
from apps.trajectories.imports.preparation import unpack_original
from apps.trajectories.models import ImportBatch, Original, RejectedRow, Step, Task, Trajectory
from contract.task_parts import MARK
from tests import factories
from tests.ingest.formats.examples import EXAMPLES
from tests.trajectories.uploads import counts, ignore, imported, lines, rich, upload

pytestmark = pytest.mark.django_db


def test_a_record_is_stored_with_everything_it_says():
    row = EXAMPLES["retrace"]
    batch = imported(lines(row))
    assert (batch.state, batch.format, *counts(batch)) == (JobState.DONE, "retrace", 1, 2, 0, 0)
    trajectory = Trajectory.objects.select_related("task", "policy").get()
    assert (trajectory.source, trajectory.external_id, trajectory.import_batch_id) == ("retrace", "r1", batch.pk)
    assert (trajectory.task.key, trajectory.task.environment, trajectory.task.initial_state) == ("k", "e", {"a": 1})
    assert (trajectory.policy.name, trajectory.policy.kind) == ("p", Policy.Kind.EXTERNAL)
    assert (trajectory.reward, trajectory.success, trajectory.termination, trajectory.tags) == (
        1.0,
        True,
        "done",
        ["a"],
    )
    assert (trajectory.step_count, trajectory.seconds, trajectory.tools, trajectory.closing) == (
        2,
        1.5,
        row["tools"],
        row["closing"],
    )
    steps = list(trajectory.steps.order_by("index"))
    assert [step.context for step in steps] == [step["context"] for step in row["steps"]]
    assert [step.message for step in steps] == [step["message"] for step in row["steps"]]
    assert [(step.reward, step.done, step.seconds, step.prompt_tokens, step.info) for step in steps] == [
        (0.5, False, 1.5, None, {}),
        (1.0, True, None, 9, {"x": 1}),
    ]
    assert [(step.kind, step.tool, step.headline, step.result) for step in steps] == [
        ("tool", "bash", "ls", "README.md"),
        ("message", "", "README.md", "thanks"),
    ]
    assert unpack_original(trajectory.original.body) == lines(row).strip()


def test_bad_rows_are_kept_with_line_reason_and_what_was_expected_and_good_ones_go_in():
    body = lines(rich(1)) + b"\n" + b'{"task": }\n' + lines({"task": {"key": "x"}, "steps": [7]}) + lines(rich(2))
    batch = imported(body)
    assert (batch.state, *counts(batch)) == (JobState.DONE, 2, 4, 0, 2)
    rows = batch.rejected_rows.order_by("position").values_list("position", "line", "reason", "excerpt")
    assert list(rows) == [
        (1, 3, "Not JSON: expecting value: line 1 column 10 (char 9).", '{"task": }'),
        (2, 4, "Step 0 is a number.", '{"task":{"key":"x"},"steps":[7]}'),
    ]
    assert all(row.expected for row in batch.rejected_rows.all())


def test_runs_of_one_record_come_in_though_others_of_it_cannot():
    runs = [
        {"messages": [{"role": "user", "content": f"{n}"}, {"role": "assistant", "content": "x"}]} for n in range(3)
    ]
    runs[1]["messages"][0]["role"] = "pirate"
    batch = imported(lines({"model": "m", "runs": runs}))
    assert counts(batch) == (2, 2, 0, 1)
    assert batch.rejected_rows.get().reason == "Element 2: A message has the role “pirate”. (1 of 3 could not be read.)"
    kept = [json.loads(unpack_original(original.body)) for original in Original.objects.order_by("pk")]
    assert kept == [{"model": "m", **runs[0]}, {"model": "m", **runs[2]}]


MESSAGES = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "gone"}]


@pytest.mark.parametrize("body", [lines(*MESSAGES), json.dumps(MESSAGES, indent=1).encode(), lines(MESSAGES)])
def test_messages_without_a_record_around_them_are_one_run(body):
    assert counts(imported(body)) == (1, 1, 0, 0)


def test_the_same_file_twice_adds_nothing():
    workspace = factories.workspace()
    body = lines(*(rich(n) for n in range(5)))
    first, second = imported(body, workspace), imported(gzip.compress(body), workspace)
    assert counts(first) == (5, 10, 0, 0)
    assert counts(second) == (0, 0, 5, 0)
    assert (Trajectory.objects.count(), Step.objects.count(), Original.objects.count()) == (5, 10, 5)


def test_equal_rows_of_one_file_are_one_trajectory_whatever_the_order_of_their_keys():
    batch = imported(lines(rich(1), dict(reversed(rich(1).items())), rich(2)))
    assert counts(batch) == (2, 4, 1, 0)


def test_another_workspace_has_its_own():
    body = lines(rich(1))
    assert counts(imported(body)) == counts(imported(body)) == (1, 2, 0, 0)
    assert Task.objects.count() == 2


def test_a_task_is_one_for_all_files_and_policies_are_found_by_name():
    workspace = factories.workspace()
    mine = factories.policy(of=workspace, name="p")
    imported(lines(rich(0, policy="p"), rich(3, policy="q")), workspace)
    imported(lines(rich(6, policy="q")), workspace)
    assert Task.objects.get().key == "k0"
    assert [t.policy.name for t in Trajectory.objects.order_by("external_id")] == ["p", "q", "q"]
    assert Trajectory.objects.get(external_id="r0").policy == mine


def test_a_policy_given_with_the_file_is_that_of_the_runs_that_name_none():
    body = lines(rich(1), rich(2, policy="q"))
    workspace = factories.workspace()
    imported(body, workspace, policy_name="  given ")
    assert {t.external_id: t.policy.name for t in Trajectory.objects.all()} == {"r1": "given", "r2": "q"}
    assert counts(imported(body, workspace)) == (0, 0, 2, 0)


def test_a_task_keeps_what_the_first_file_said_of_it():
    workspace = factories.workspace()
    imported(lines(rich(1, task={"key": "k", "instruction": "first"})), workspace)
    imported(lines(rich(2, task={"key": "k", "instruction": "second"})), workspace)
    assert Task.objects.get().instruction == "first"


def test_a_task_is_held_out_with_its_parts_once_a_record_says_so():
    workspace = factories.workspace()
    imported(lines(rich(1, task={"key": "k"}), rich(2, task={"key": "other"})), workspace)
    part = factories.task(of=workspace, key=f"k{MARK}{'0' * 16}")
    factories.task(key="k")  # of another workspace
    imported(lines(rich(3, task={"key": "k", "held_out": True})), workspace)
    imported(lines(rich(4, task={"key": "k"})), workspace)
    held_out = Task.objects.filter(held_out=True)
    assert {(task.workspace, task.key) for task in held_out} == {(workspace, "k"), (workspace, part.key)}


def test_new_parts_of_a_task_that_is_held_out_are_held_out():
    workspace = factories.workspace()
    factories.task(key="other", held_out=True)  # of another workspace
    part, foreign = (f"{key}{MARK}{'1' * 16}" for key in ("k", "other"))
    imported(lines(rich(1, task={"key": "k", "held_out": True}), rich(2, task={"key": "other"})), workspace)
    imported(lines(rich(3, task={"key": part}), rich(4, task={"key": foreign})), workspace)
    assert {*Task.objects.filter(workspace=workspace, held_out=True).values_list("key", flat=True)} == {"k", part}


def test_names_longer_than_their_columns_are_shortened_and_stay_different():
    long = "k" * 400
    batch = imported(
        lines(rich(1, task={"key": long + "a"}, policy="p" * 300, tags=["t" * 200]), rich(2, task={"key": long + "b"}))
    )
    assert counts(batch) == (2, 4, 0, 0)
    assert Task.objects.count() == 2


HOSTILE = [
    "NUL \x00 inside",
    "lone \ud800 surrogate \udfff",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "x" * 1_000_000,
    "\x1b]8;;http://evil\x07click\x1b]8;;\x07",
    "e\u0301\u202e\ufeff🙂",
]


def test_hostile_text_comes_back_exactly_as_it_was():
    rows = []
    for number, text in enumerate(HOSTILE):
        row = rich(number, task={"key": text[:200], "instruction": text})
        row["steps"] = [
            {
                "context": [{"role": "user", "content": text}],
                "message": {
                    "role": "assistant",
                    "content": text,
                    "tool_calls": [
                        {"id": "c", "type": "function", "function": {"name": text[:50] or "n", "arguments": text}}
                    ],
                },
                "error": text[:100],
                "info": {text[:9]: text},
            }
        ]
        rows.append(
            row
            | {
                "tags": [text[:300]],
                "outcome": {"termination": text},
                "policy": text,
                "closing": [{"role": "tool", "content": text}],
            }
        )
    body = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    batch = imported(body)
    assert counts(batch) == (len(HOSTILE), len(HOSTILE), 0, 0)
    for number, text in enumerate(HOSTILE):
        trajectory = Trajectory.objects.get(external_id=f"r{number}")
        (step,) = trajectory.steps.all()
        assert step.context[0]["content"] == text
        assert step.message["tool_calls"][0]["function"]["arguments"] == text
        assert step.info[text[:9]] == text
        assert trajectory.closing[0]["content"] == text


def test_a_ten_megabyte_cell_goes_in_whole():
    row = rich(1)
    row["steps"][0]["context"][0]["content"] = "y" * 10_000_000
    imported(lines(row))
    step = Step.objects.get(index=0)
    assert (len(step.context[0]["content"]), step.context_chars) == (10_000_000, 10_000_000)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (
            b'{"task": {"key": "k"}, "steps": [], "info": {"x": ' + b"[" * 400 + b"]" * 400 + b"}}",
            "Nested deeper than 250 levels.",
        ),
        (
            b'{"task": {"key": "k"}, "steps": [], "info": ' + b"[" * 90_000 + b"]" * 90_000 + b"}",
            "Nested deeper than 250 levels.",
        ),
        (b'{"task": {"key": "caf\xe9"}, "steps": []}', "Byte 22 (0xe9) isn't UTF-8."),
        (b"[1, 2]", "The record is a list."),
        (b"null", "The record is null."),
    ],
)
def test_rows_that_no_column_could_hold_are_rejected_alone(row, reason):
    batch = imported(lines(rich(1)) + row + b"\n" + lines(rich(2)))
    assert counts(batch) == (2, 4, 0, 1)
    assert batch.rejected_rows.get().reason == reason


def test_a_line_over_the_limit_is_rejected_alone(settings):
    settings.IMPORT_MAX_RECORD_BYTES = 1 << 20
    batch = imported(lines(rich(1), rich(2, info={"x": "y" * (2 << 20)}), rich(3)))
    assert counts(batch) == (2, 4, 0, 1)
    assert batch.rejected_rows.get().reason == "Longer than 1 MiB, the most that one record may have."


def test_a_record_that_breaks_its_reader_is_rejected_alone(monkeypatch):
    real = preparation.prepare

    def fragile(record, original, verdict):
        if record.id == "r2":
            raise KeyError("boom")
        return real(record, original, verdict)

    monkeypatch.setattr(preparation, "prepare", fragile)
    batch = imported(lines(rich(1), rich(2), rich(3)))
    assert counts(batch) == (2, 4, 0, 1)
    assert "KeyError: 'boom'" in batch.rejected_rows.get().reason


def test_a_record_that_the_database_refuses_is_rejected_alone(monkeypatch):
    real = preparation.prepare

    def odd(record, original, verdict):
        prepared = real(record, original, verdict)
        if record.id == "r2":
            prepared.columns["info"] = "no json"
        return prepared

    monkeypatch.setattr(preparation, "prepare", odd)
    batch = imported(lines(rich(1), rich(2), rich(3), rich(1)))
    assert (batch.state, *counts(batch)) == (JobState.DONE, 2, 4, 1, 1)
    row = batch.rejected_rows.get()
    assert row.position == 1
    assert row.reason.startswith("The database refuses it: invalid input syntax for type json")


def test_a_fault_of_ours_is_said_to_be_one_and_the_import_can_go_on(monkeypatch):
    monkeypatch.setattr(import_job, "copy_in", lambda *args: 1 / 0)
    batch = imported(lines(rich(1)))
    assert (batch.state, batch.position) == (JobState.FAILED, 0)
    assert batch.error.startswith("This is a bug in Retrace, not in the file (ZeroDivisionError)")
    monkeypatch.undo()
    lifecycle.resume(batch, by=None)
    assert run_import(batch.pk, watch=ignore).trajectory_count == 1


def test_a_file_of_another_kind_is_refused_as_a_whole_with_what_is_known():
    batch = imported(lines({"spans": []}))
    assert (batch.state, batch.position) == (JobState.FAILED, 0)
    assert batch.error.startswith(
        "No known format: the first record has the keys `spans`. Nearest: OpenTelemetry spans"
    )


CHAT = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def test_an_import_says_of_how_many_tasks_its_trajectories_are():
    batch = imported(lines(*({"messages": CHAT, "task_id": number % 3, "id": number} for number in range(12))))
    assert (batch.trajectory_count, batch.task_count, batch.warning_count, batch.warnings) == (12, 3, 0, [])


def test_many_runs_of_one_task_of_which_nothing_is_known_are_worth_a_warning():
    answer = CHAT[1:]
    batch = imported(lines(*({"messages": answer, "task_id": "t", "id": number} for number in range(12))))
    assert (batch.task_count, batch.warning_count) == (1, 1)
    assert batch.warnings[0].startswith("12 of 12 trajectories share the task t, and nothing says what was asked.")
    without_instructions = imported(lines(*({"messages": CHAT, "task_id": "u", "id": number} for number in range(12))))
    assert (without_instructions.task_count, without_instructions.warning_count) == (1, 0)


def test_rewards_that_are_no_numbers_are_left_out_with_warnings_that_name_their_places():
    rows = [
        {"messages": CHAT, "id": number, "reward": reward} for number, reward in enumerate([1, float("nan"), "inf"])
    ]
    batch = imported(lines(*rows))
    assert sorted(Trajectory.objects.values_list("external_id", "reward")) == [("0", 1.0), ("1", None), ("2", None)]
    assert batch.warning_count == 2
    assert batch.warnings == [
        "Line 2: The reward of the run is NaN; it is kept without a reward.",
        "Line 3: The reward of the run is infinite; it is kept without a reward.",
    ]


def test_all_warnings_are_counted_and_the_first_are_kept():
    batch = imported(lines(*({"messages": CHAT, "id": number, "reward": "nan"} for number in range(25))))
    assert (batch.trajectory_count, batch.warning_count, len(batch.warnings)) == (25, 25, 20)


def test_a_file_that_is_plainly_something_else_is_given_up(monkeypatch):
    monkeypatch.setattr(import_job, "MAX_REJECTED", 50)
    monkeypatch.setattr(preparation, "CHUNK_ROWS", 20)
    batch = imported(lines(rich(1)) + b"oops\n" * 500)
    assert batch.state == JobState.FAILED
    assert "More than 50 records couldn't be read" in batch.error
    assert RejectedRow.objects.count() < 100


def test_a_cut_off_upload_keeps_what_arrived_says_so_and_the_whole_file_adds_the_rest():
    workspace = factories.workspace()
    body = gzip.compress(lines(*(rich(n, info={"x": str(hash(n))}) for n in range(3000))))
    cut = imported(body[: len(body) // 2], workspace)
    assert cut.state == JobState.FAILED
    assert "cut off or damaged" in cut.error
    assert 0 < cut.trajectory_count < 3000
    whole = imported(body, workspace)
    assert (whole.state, whole.duplicate_count) == (JobState.DONE, cut.trajectory_count)
    assert Trajectory.objects.count() == 3000


@pytest.mark.parametrize("is_known_to_be_gone", [False, True])
def test_a_file_that_vanished_is_said_so_and_is_not_retried_by_itself(is_known_to_be_gone):
    """If somebody deleted the last of its trajectories, the reason is known."""
    batch = upload(lines(rich(1)))
    batch.file.storage.delete(batch.file.name)
    if is_known_to_be_gone:
        type(batch).objects.update(file="")
    run_import(batch.pk, watch=ignore)
    batch.refresh_from_db()
    assert (batch.state, batch.error) == (
        JobState.FAILED,
        "The uploaded file is no longer in storage. Upload it again.",
    )


def test_the_file_is_kept_only_while_something_in_it_may_be_looked_up(settings):
    folder = Path(settings.STORAGES["default"]["OPTIONS"]["location"])
    clean, dirty = imported(lines(rich(1))), imported(lines(rich(2)) + b"oops\n")
    assert not (folder / clean.file.name).exists()
    assert (folder / dirty.file.name).exists()


@pytest.mark.django_db(transaction=True)
def test_two_imports_of_one_file_at_once_bring_every_trajectory_in_once(monkeypatch):
    """They take turns, unless one worker was presumed dead."""
    monkeypatch.setattr(lanes, "has_its_share", lambda *_: False)
    monkeypatch.setattr(preparation, "CHUNK_ROWS", 25)
    workspace = factories.workspace()
    rows = [rich(n, policy=f"p{n % 7}", task={"key": f"k{n % 90}"}) for n in range(400)]
    batches = [upload(lines(*rows), workspace), upload(lines(*reversed(rows)), workspace)]

    def bring_in(batch: ImportBatch) -> None:
        run_import(batch.pk, watch=ignore)
        connection.close()

    threads = [threading.Thread(target=bring_in, args=[batch]) for batch in batches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for batch in batches:
        batch.refresh_from_db()
    assert [batch.state for batch in batches] == [JobState.DONE, JobState.DONE]
    assert sum(batch.trajectory_count for batch in batches) == 400
    assert sum(batch.duplicate_count for batch in batches) == 400
    assert (Trajectory.objects.count(), Step.objects.count(), Task.objects.count()) == (400, 800, 90)
