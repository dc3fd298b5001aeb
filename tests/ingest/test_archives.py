"""Hostile archives: by their names, by nesting, and by their unpacked size."""

import gzip
import io
import json
import struct
import tarfile
import tracemalloc
import warnings
import zipfile

import pytest

from apps.ingest import archives
from apps.ingest.files import inspect_archive
from apps.ingest.files.source import Limits, UnreadableFile
from apps.ingest.formats import UnknownFormat
from apps.ingest.normalization import evaluation_reports
from apps.ingest.normalization.evaluation_reports import Outcomes
from apps.ingest.reading import Reading
from apps.ingest.upload import Upload

CHAT = json.dumps({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}).encode()
NAMES = (
    *("/etc/passwd.json", "../../up.json", "a\\..\\b.json", f"{'x' * 5000}.json", "twice.json", "twice.json"),
    *("a//b.json", "./c.json", "a/\n/b.json", "CON.json", "\x1b[31mred.json", "\u202egnp.json"),
)


def read(body: bytes, limits: Limits | None = None) -> tuple[int, list[str]]:
    """The number of trajectories in an upload, and the messages for what was refused."""
    runs, refused = 0, []
    for record in Upload(io.BytesIO(body), "upload", limits or Limits()):
        reading = Reading(record)
        runs += len(reading.collect(lambda run: run))
        refused += [reading.refusal.reason] if reading.refusal else []
    return runs, refused


def zipped(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about duplicate names
        for name, body in members:
            archive.writestr(name, body)
    return out.getvalue()


def tarred(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, body in members:
            header = tarfile.TarInfo(name)
            header.size = len(body)
            archive.addfile(header, io.BytesIO(body))
    return out.getvalue()


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_whatever_its_files_are_called_each_is_read(pack):
    assert read(pack(*((name, CHAT) for name in NAMES))) == (len(NAMES), [])


@pytest.mark.parametrize(
    ("kind", "problems"),
    [
        *((kind, ["The file is a link. Pack the files"]) for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE)),
        *((kind, []) for kind in (tarfile.CHRTYPE, tarfile.FIFOTYPE)),
    ],
)
def test_links_are_not_followed_but_reported_and_devices_are_no_files(kind, problems):
    out = io.BytesIO(tarred(("a.json", CHAT)))
    with tarfile.open(fileobj=out, mode="a") as archive:
        header = tarfile.TarInfo("b.json")
        header.type, header.linkname = kind, "/etc/passwd"
        archive.addfile(header)
    count, refused = read(out.getvalue())
    assert (count, [problem[:34] for problem in refused]) == (1, problems)


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_an_archive_in_an_archive_is_not_opened(pack):
    inner = pack(("a.json", CHAT))
    with pytest.raises(UnknownFormat, match=r"archive inside another\. Unpack it once\."):
        read(pack(("a.json", inner)))


def test_members_that_share_their_bytes_count_each_time():
    """A directory that lists one member of 1 MB thousands of times: 3 MB that would unpack to 60 GB."""
    whole = zipped(("0.jsonl", CHAT + b" " * (1 << 20)))
    end = whole.rindex(b"PK\x05\x06")
    (start,) = struct.unpack("<I", whole[end + 16 : end + 20])
    entry, times = whole[start:end], 60_000
    tail = struct.pack("<HHHHIIH", 0, 0, times, times, len(entry) * times, start, 0)
    body = whole[:start] + entry * times + b"PK\x05\x06" + tail
    with pytest.raises(UnreadableFile, match="Unpacks to more than"):
        read(body, Limits(unpacked=20 << 20))


def long_name(size: int) -> bytes:
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, size
    return header.tobuf(tarfile.GNU_FORMAT) + b"x" * size + b"\0" * (-size % 512)


def remarks(size: int) -> bytes:
    header = tarfile.TarInfo("./PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, size
    return header.tobuf(tarfile.USTAR_FORMAT) + b"x" * size + b"\0" * (-size % 512)


@pytest.mark.parametrize("make", [long_name, remarks])
def test_a_header_without_end_is_not_taken_into_memory(make):
    packed = gzip.compress(make(8 << 20) + tarred(("a.json", CHAT)))
    assert len(packed) < 20_000
    with pytest.raises(UnreadableFile, match=r"damaged \(a header of 8,388,608 bytes\)"):
        read(packed)


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE])
def test_long_names_are_not_kept_without_end(kind, monkeypatch):
    """Some kilobytes that contain gigabytes of names, each in a header of an acceptable size; here with a smaller limit, since packing them takes seconds."""
    monkeypatch.setattr(archives, "MAX_PATHS", 8 << 20)
    whole = io.BytesIO()
    with gzip.GzipFile(fileobj=whole, mode="wb", compresslevel=1) as packed:
        for number in range(150):
            packed.write(named(f"{number}{'a' * 60_000}.json", kind))
        packed.write(b"\0" * 1024)
    tracemalloc.start()
    with pytest.raises(UnreadableFile, match="paths of more than"):
        read(whole.getvalue())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 << 20  # paths of 8 MiB


def test_an_archive_of_folders_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(archives, "MAX_ENTRIES", 50)
    body = b"".join(named(f"folder{number}", tarfile.DIRTYPE) for number in range(51))
    with pytest.raises(UnreadableFile, match="more than 50 entries"):
        read(body + tarred(("a.json", CHAT)))


def test_headers_of_headers_without_end_are_a_damaged_archive():
    with pytest.raises(UnreadableFile, match="damaged"):
        read(gzip.compress(remarks(0) * 5000 + tarred(("a.json", CHAT))))


def named(name: str, kind: bytes) -> bytes:
    header = tarfile.TarInfo(name)
    header.type = kind
    return header.tobuf(tarfile.GNU_FORMAT)


def test_a_directory_of_a_zip_archive_that_is_too_large_is_not_read(monkeypatch):
    monkeypatch.setattr(inspect_archive, "MAX_DIRECTORY_BYTES", 100)
    assert read(zipped(("a.json", CHAT))) == (1, [])
    with pytest.raises(UnreadableFile, match="larger than it can be"):
        read(zipped(*((f"{number}.json", CHAT) for number in range(5))))


def test_of_a_report_only_what_is_used_is_kept():
    """The rest may be 16 MB, which a zip archive compresses to some kilobytes, and there may be thousands."""
    rewards = {"rewards": {"reward": 1}}
    outcomes = Outcomes()
    outcomes.add("0/result.json", json.dumps({"task_name": "t", "verifier_result": rewards, "pad": [1]}).encode())
    (trial,) = outcomes.trials.values()
    assert trial == {"task_name": "t", "verifier_result": rewards, "exception_info": None}
    assert outcomes.kept == len(json.dumps(trial, separators=(",", ":")))


def test_reports_of_evaluations_that_hold_too_much_are_refused(monkeypatch):
    monkeypatch.setattr(evaluation_reports, "MAX_KEPT", 1000)
    reports = [
        (f"{n}/report.json", json.dumps({"resolved_ids": [f"task-{n}-{m}" for m in range(5)]}).encode())
        for n in range(5)
    ]
    with pytest.raises(UnreadableFile, match="are too large"):
        read(zipped(*reports, ("a.json", CHAT)))
    monkeypatch.setattr(archives, "MAX_REPORT_BYTES", 100)
    monkeypatch.setattr(evaluation_reports, "MAX_KEPT", 1 << 20)
    with pytest.raises(UnreadableFile, match="are too large"):
        read(zipped(*reports, ("a.json", CHAT)))


def test_long_names_as_tar_writes_them_are_read():
    name = f"{'folder/' * 200}a.json"
    assert read(tarred((name, CHAT))) == (1, [])


def test_a_hole_in_a_file_counts_as_unpacked():
    """GNU's sparse files: half a kilobyte that represents 7 GiB of zeros."""
    header = tarfile.TarInfo("a.json")
    header.type, header.size = tarfile.GNUTYPE_SPARSE, 512
    block = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    block[386:410] = b"%011o\0%011o\0" % (0, 512)
    block[483:495] = b"%011o\0" % (7 << 30)
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + sum(block[156:512]) + 8 * ord(" "))
    body = gzip.compress(bytes(block) + CHAT.ljust(512) + b"\0" * 1024)
    with pytest.raises(UnreadableFile, match="Unpacks to more than"):
        read(body, Limits(unpacked=20 << 20))


@pytest.mark.parametrize("header", [b'{"eval": "' + b"x" * (17 << 20) + b'"}', b"[" * 10_000, b"\xff", b"null"])
def test_a_log_whose_header_is_odd_is_refused_or_empty(header):
    with pytest.raises((UnreadableFile, UnknownFormat)):
        read(zipped(("header.json", header), ("samples/1_epoch_1.json", b"{}")))


def test_a_sample_that_unpacks_to_more_than_a_record_may_is_rejected_alone():
    about = json.dumps({"eval": {"model": "m", "task": "t"}, "status": "success"}).encode()
    good = json.dumps({"id": 1, "epoch": 1, "messages": json.loads(CHAT)["messages"]}).encode()
    huge = b'{"id": 2' + b" " * (3 << 20) + b"}"
    body = zipped(("header.json", about), ("samples/2_epoch_1.json", huge), ("samples/1_epoch_1.json", good))
    runs, refused = read(body, Limits(record=1 << 20))
    assert (runs, refused) == (1, ["Longer than 1 MiB, the most that one record may have."])
