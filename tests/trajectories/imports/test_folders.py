"""Archives of files: each file inside is imported as if it had been uploaded by itself, and no name is used as a path."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from apps.ingest import archives
from apps.jobs.models import JobState
from apps.trajectories.imports import import_job, preparation
from apps.trajectories.imports.preparation import chunks
from apps.trajectories.models import ImportBatch, Trajectory
from tests.ingest.files.test_inspect_archive import HEADER, SAMPLE, with_zstd
from tests.ingest.files.test_inspect_archive import archive as zipped
from tests.ingest.formats.examples import EXAMPLES
from tests.trajectories.uploads import counts, imported, lines, rich

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def reads_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Archives are read in this process, so that tests can lower its limits; `test_reader_process.py` reads them in a separate one, as usual."""
    monkeypatch.setattr(import_job, "_is_packed", lambda file: False)


Pack = Callable[[dict[str, bytes]], bytes]


def tarred(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, body in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))
    return out.getvalue()


def tar_gz(members: dict[str, bytes]) -> bytes:
    return gzip.compress(tarred(members))


def tar_zst(members: dict[str, bytes]) -> bytes:
    return zstandard.compress(tarred(members))


def as_json(name: str) -> bytes:
    return json.dumps(EXAMPLES[name]).encode()


def reasons(batch: ImportBatch) -> list[str]:
    return list(batch.rejected_rows.order_by("position").values_list("reason", flat=True))


PACKS = [zipped, with_zstd, tarred, tar_gz, tar_zst]


@pytest.mark.parametrize("pack", PACKS)
def test_every_file_of_an_archive_comes_in(pack: Pack) -> None:
    body = pack(
        {
            "runs/a.jsonl": lines(rich(1), rich(2)),
            "runs/b.json.gz": gzip.compress(json.dumps([rich(3), rich(4)]).encode()),
            "runs/deep/er/c.jsonl": lines(rich(5)) + b"rubbish\n",
        }
    )
    batch = imported(body, name="runs.archive")
    assert (batch.state, batch.format, *counts(batch)) == (JobState.DONE, "retrace", 5, 10, 0, 1)
    assert batch.bytes_read == batch.size
    assert reasons(batch) == ["runs/deep/er/c.jsonl: Not JSON: expecting value: line 1 column 1 (char 0)."]
    again = imported(body, batch.workspace)
    assert counts(again) == (0, 0, 5, 1)


@pytest.mark.parametrize("pack", [zipped, tar_gz])
def test_files_may_be_of_different_formats_and_say_by_their_names_what_they_are(pack: Pack) -> None:
    unnamed = {**EXAMPLES["swe-agent"]}
    batch = imported(
        pack(
            {
                "out/owner__repository-7/owner__repository-7.traj": json.dumps(unnamed).encode(),
                "out/log.eval": zipped({"header.json": HEADER, "samples/1.json": SAMPLE}),
                "out/results.json": as_json("tau-bench"),
            }
        )
    )
    assert (batch.state, batch.rejected_count) == (JobState.DONE, 0)
    sources = Trajectory.objects.order_by("source").values_list("source", flat=True).distinct()
    assert list(sources) == ["inspect", "swe-agent", "tau-bench"]


def test_what_is_no_data_is_passed_over_and_named_and_other_json_is_told_why() -> None:
    batch = imported(
        zipped(
            {
                "run/a.json": json.dumps(rich(1)).encode(),
                "run/preds.json": b'{"instance": {"model_patch": ""}}',
                "run/exit.yaml": b"a: b",
                "run/log.txt": b"\x00",
                "run/model.pkl": b"\x80\x04.",
                "run/.DS_Store": b"\x00",
                "__MACOSX/run/._a.json": b"\x00",
                "run/empty/": b"",
            }
        )
    )
    assert (batch.state, batch.trajectory_count) == (JobState.DONE, 1)
    messages = reasons(batch)
    assert messages[0].startswith("run/preds.json: No known format: the first record has the keys `instance`")
    assert "docs/importing.md" not in messages[0]
    assert messages[1].endswith(": run/exit.yaml, run/log.txt, run/model.pkl.")
    assert len(messages) == 2


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"a.txt": b"hello", "b.log": b""}, "The archive holds no file that ends in .json, "),
        ({}, "empty zip archive"),
        ({"inner.json": zipped({"a.json": b"{}"})}, "a zip archive inside another. Unpack it once."),
        ({"inner.json": tarred({"a.json": b"{}"})}, "a tar archive inside another. Unpack it once."),
        ({"a.json": b'{"spans": []}'}, "No known format: the first record has the keys `spans`."),
        ({"a.json": b""}, "of the first: The file is empty."),
    ],
)
def test_an_archive_without_anything_to_read_is_refused(members: dict[str, bytes], words: str) -> None:
    batch = imported(zipped(members))
    assert (batch.state, batch.trajectory_count) == (JobState.FAILED, 0)
    assert words in batch.error


def test_no_name_leads_out_of_the_archive_and_links_are_not_followed(tmp_path: Path) -> None:
    out = io.BytesIO(
        tarred(
            {
                "../../../tmp/evil.jsonl": lines(rich(1)),
                "/abs/olute.jsonl": lines(rich(2)),
                "./here.jsonl": lines(rich(3)),
            }
        )
    )
    with tarfile.open(fileobj=out, mode="a") as archive:
        link = tarfile.TarInfo("passwords.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    batch = imported(out.getvalue())
    assert counts(batch) == (3, 6, 0, 1)
    assert reasons(batch) == [
        "passwords.json: The file is a link. Pack the files themselves (`tar --dereference --hard-dereference`)."
    ]
    assert not Path("/tmp/evil.jsonl").exists()
    assert not Path("/abs").exists()


def test_a_damaged_file_keeps_none_of_the_others_from_coming_in() -> None:
    whole = zipped({"a.jsonl": lines(rich(1)), "b.jsonl": lines(*(rich(n) for n in range(2, 50)))})
    at = whole.index(b"b.jsonl") + 40
    batch = imported(whole[:at] + b"\xff\xff\xff" + whole[at + 3 :])
    assert (batch.state, batch.trajectory_count) == (JobState.DONE, 1)
    assert reasons(batch)[0].startswith("b.jsonl: The file is damaged (")


def test_a_cut_off_tar_gives_what_it_holds_and_then_says_so() -> None:
    body = tar_gz({f"{n}.jsonl": lines(*(rich(n * 100 + k, suffix=str(k * n)) for k in range(50))) for n in range(40)})
    batch = imported(body[: len(body) // 2])
    assert batch.state == JobState.FAILED
    assert "The archive is cut off or damaged" in batch.error
    assert 0 < batch.trajectory_count < 2000


def test_an_encrypted_file_is_refused_alone() -> None:
    whole = bytearray(zipped({"a.jsonl": lines(rich(1)), "b.jsonl": lines(rich(2))}))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = whole.rindex(mark)
        whole[at + place] |= 1
    batch = imported(bytes(whole))
    assert (batch.state, batch.trajectory_count) == (JobState.DONE, 1)
    assert "b.jsonl: The file is an encrypted zip archive." in reasons(batch)[0]


@pytest.mark.parametrize("pack", [zipped, tar_gz])
def test_an_archive_that_unpacks_to_too_much_is_refused(pack: Pack, settings, monkeypatch: pytest.MonkeyPatch) -> None:
    body = pack({"a.jsonl": lines(rich(1)), "b.jsonl": b"\n" * (16 << 20)})
    settings.IMPORT_MAX_UNPACKED_BYTES = 4 << 20
    assert "Unpacks to more than" in imported(body).error
    settings.IMPORT_MAX_UNPACKED_BYTES = 1 << 30
    monkeypatch.setattr(archives, "RATIO_FROM", 1 << 20)
    assert "as only a decompression bomb does" in imported(body).error


def test_what_is_passed_over_in_a_tar_counts_as_it_is_unpacked_too(settings) -> None:
    settings.IMPORT_MAX_UNPACKED_BYTES = 4 << 20
    files = {"a.jsonl": lines(rich(1)), "b.log": b"\n" * (16 << 20)}
    assert "Unpacks to more than" in imported(tar_gz(files)).error
    assert imported(zipped(files)).state == JobState.DONE


def test_an_import_of_an_archive_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "CHUNK_ROWS", 3)
    body = zipped({f"{n}.jsonl": lines(rich(n), rich(n + 10)) for n in range(5)} | {"z.txt": b""})
    whole = list(chunks(io.BytesIO(body), "runs.zip"))
    rest = list(chunks(io.BytesIO(body), "runs.zip", whole[1].end))
    assert [(chunk.start, chunk.end) for chunk in whole] == [(0, 3), (3, 6), (6, 9), (9, 11)]
    assert [(chunk.start, chunk.end) for chunk in rest] == [(6, 9), (9, 11)]
    assert [item.columns["content_hash"] for chunk in rest for item, _ in chunk.prepared] == [
        item.columns["content_hash"] for chunk in whole[2:] for item, _ in chunk.prepared
    ]


def test_progress_never_goes_back_where_formats_change() -> None:
    chats = json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}).encode()
    body = tarred({f"{n}.json": chats if n % 2 else json.dumps(rich(n)).encode() for n in range(6)})
    chunks_read = list(chunks(io.BytesIO(body), "runs.tar"))
    assert [chunk.format for chunk in chunks_read] == ["retrace", "openai-chat"] * 3
    assert chunks_read[0].bytes_read > 0
    assert [chunk.bytes_read for chunk in chunks_read] == sorted(chunk.bytes_read for chunk in chunks_read)


def test_a_folder_of_real_runs_comes_in_as_its_files_do(real_data: Callable[[str], Path]) -> None:
    home = real_data("mini-swe-agent/deepseek_chat_dev")
    paths = [path for path in sorted(home.rglob("*")) if path.is_file()]
    batch = imported(zipped({str(path.relative_to(home)): path.read_bytes() for path in paths}))
    runs = [path for path in paths if ".traj.json" in path.name]
    assert (batch.state, batch.format, batch.trajectory_count) == (JobState.DONE, "mini-swe-agent", len(runs))


def test_folders_of_osworld_name_the_task_and_hold_what_it_came_to() -> None:
    step = {
        "step_num": 1,
        "action_timestamp": "t",
        "action": "DONE",
        "reward": 0,
        "done": True,
        "screenshot_file": "a.png",
    }
    members = {"out/chrome/one/traj.jsonl": lines(step), "out/chrome/one/result.txt": b"0.5\n"}
    batch = imported(zipped({**members, "out/chrome/two/traj.jsonl": lines(step), "out/chrome/one/a.png": b"x"}))
    rows = Trajectory.objects.order_by("task__key").values_list("task__key", "task__category", "reward")
    assert list(rows) == [("one", "chrome", 0.5), ("two", "chrome", None)]
    assert reasons(batch)[0].endswith(": out/chrome/one/a.png.")


def test_folders_of_appworld_name_the_task() -> None:
    call = {
        "input": {"messages": [{"role": "user", "content": "q"}]},
        "output": {"choices": [{"message": {"role": "assistant", "content": "a"}}]},
    }
    imported(
        zipped({f"out/tasks/{name}/logs/lm_calls.jsonl": lines({**call, "id": name}) for name in ("a1_1", "a1_2")})
    )
    rows = Trajectory.objects.order_by("task__key").values_list("task__key", "task__environment")
    assert list(rows) == [("a1_1", "appworld"), ("a1_2", "appworld")]
