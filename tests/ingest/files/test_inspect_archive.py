"""Inspect's archives: read sample by sample, with any compression; unreadable ones are refused with a message."""

import io
import json
import random
import zipfile

import pytest
import zstandard

from apps.ingest.files import source
from apps.ingest.files.inspect_archive import ZSTD_METHOD
from apps.ingest.files.source import open_source
from apps.ingest.upload import recognize_file
from tests.ingest.formats.examples import EXAMPLES
from tests.trajectories.uploads import MAX_BYTES, refused, rows_of

LOG = EXAMPLES["inspect"]
HEADER = json.dumps({key: value for key, value in LOG.items() if key != "samples"}).encode()
SAMPLE = json.dumps(LOG["samples"][0], indent=2).encode()


def archive(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as packed:
        for name, body in members.items():
            packed.writestr(name, body)
    return out.getvalue()


def with_zstd(members: dict[str, bytes]) -> bytes:
    """An archive as Python 3.14 writes it, whose members are zstd frames and declared as such."""
    body = bytearray(archive({name: zstandard.compress(body) for name, body in members.items()}, zipfile.ZIP_STORED))
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = body.find(mark)
        while at >= 0:
            body[at + place : at + place + 2] = ZSTD_METHOD.to_bytes(2, "little")
            at = body.find(mark, at + 4)
    return bytes(body)


@pytest.mark.parametrize("pack", [archive, with_zstd])
def test_each_sample_comes_with_what_the_header_says(pack):
    members = {"header.json": HEADER, "samples/1_epoch_1.json": SAMPLE, "samples/2_epoch_1.json": SAMPLE}
    expected = {"eval": LOG["eval"], "samples": LOG["samples"]}
    assert rows_of(pack({**members, "summaries.json": b"[]"})) == [expected, expected]


def test_an_evaluation_that_still_runs_has_only_its_journal():
    recognized = recognize_file(io.BytesIO(archive({"_journal/start.json": HEADER, "samples/a.json": SAMPLE})))
    assert recognized.format.name == "inspect"
    assert len(list(recognized.rows)) == 1


def test_progress_is_that_of_the_archive():
    body = archive({"header.json": HEADER, "samples/a.json": SAMPLE})
    opened = open_source(io.BytesIO(body), most_bytes=MAX_BYTES)
    list(opened.rows(limit=MAX_BYTES))
    assert 0 < opened.bytes_read <= len(body)


def test_names_inside_are_only_names():
    body = archive({"header.json": HEADER, "../../samples/a.json": SAMPLE, "/etc/samples/b.json": SAMPLE})
    assert "is empty" in refused(body)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (archive({"a.json": b"{}"}), "a zip archive inside another. Unpack it once"),
        (archive({"header.json": b"{", "samples/a.json": SAMPLE}), "whose header.json cannot be read"),
        (archive({"header.json": HEADER, "samples/a.json": SAMPLE})[:-40], "damaged zip archive"),
    ],
)
def test_what_cannot_be_read_says_so(body: bytes, words: str):
    assert words in refused(body)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_all_that_python_unpacks_is_read(compression: int):
    assert len(rows_of(archive({"header.json": HEADER, "samples/a.json": SAMPLE}, compression))) == 1


def test_a_damaged_member_says_so():
    body = bytearray(archive({"header.json": HEADER, "samples/a.json": SAMPLE * 50}))
    at = body.find(b"samples/a.json") + 60
    body[at : at + 40] = bytes(40)
    assert "damaged zip archive" in refused(bytes(body))


def test_a_long_first_sample_is_no_bomb(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(source, "RATIO_FROM", 1 << 20)
    text = "".join(random.Random(0).choices("abcdefgh", k=3 << 20))
    sample = json.dumps({**LOG["samples"][0], "text": text}).encode()
    body = archive({"header.json": HEADER, "samples/a.json": sample, "samples/b.json": SAMPLE})
    assert [row["samples"][0].get("text") for row in rows_of(body)] == [text, None]


def test_a_bomb_is_not_unpacked():
    body = archive({"header.json": HEADER, "samples/a.json": b"[" + b" " * (8 << 20) + b"]"})
    assert "Unpacks to more than" in refused(body, most=1 << 20)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damage_says_so_however_it_is_packed(compression: int):
    """For bzip2, damage once looked like a failing disk, for which an import waits."""
    body = bytearray(archive({"header.json": HEADER, "samples/a.json": SAMPLE * 50}, compression))
    at = body.find(b"samples/a.json") + 30
    body[at : at + 40] = bytes(40)
    assert "damaged zip archive" in refused(bytes(body))


@pytest.mark.parametrize("pack", [archive, with_zstd])
@pytest.mark.parametrize("offset", [b"\x00\x00\x00\x00", b"\xff\xff\xff\x7f"])
def test_an_archive_that_misplaces_its_members_says_so(pack, offset: bytes):
    body = bytearray(pack({"header.json": HEADER, "samples/a.json": SAMPLE}))
    at = body.rfind(b"PK\x01\x02")
    body[at + 42 : at + 46] = offset
    del body[30:35]  # shifts all members by five bytes, so that the first would begin before the start of the file
    words = refused(bytes(body))
    assert "damaged zip archive" in words


def test_a_version_of_zip_from_the_future_says_so():
    body = bytearray(archive({"header.json": HEADER, "samples/a.json": SAMPLE}))
    body[body.rfind(b"PK\x01\x02") + 6] = 255
    assert "damaged zip archive" in refused(bytes(body))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, ZSTD_METHOD])
def test_a_bomb_of_members_that_overlap_is_not_unpacked(method: int, monkeypatch: pytest.MonkeyPatch):
    """52 KB once unpacked to 1.1 GB, since each directory entry for the same bytes counted them again."""
    monkeypatch.setattr(source, "RATIO_FROM", 6 << 20)
    text = "".join(random.Random(1).choices("abcdefgh", k=9_000)) + "z" * 1_000_000
    sample = json.dumps({**LOG["samples"][0], "metadata": text}).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("header.json", HEADER)
        packed.writestr("samples/a.json", sample)
        packed.filelist += packed.filelist[-1:] * 20
    body = out.getvalue()
    if method == ZSTD_METHOD:
        members = {"header.json": HEADER, "samples/a.json": sample}
        body = with_zstd(members)
        at, end = body.rfind(b"PK\x01\x02"), body.rfind(b"PK\x05\x06")
        entry, tail = body[at:end], bytearray(body[end:])
        size = int.from_bytes(tail[12:16], "little") + 20 * len(entry)
        tail[8:12] = (22).to_bytes(2, "little") * 2
        tail[12:16] = size.to_bytes(4, "little")
        body = body[:end] + entry * 20 + bytes(tail)
    assert "as only a decompression bomb does" in refused(body)
