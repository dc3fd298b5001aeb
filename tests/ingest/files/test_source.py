"""Opening files: compression, layouts, and files without trajectories."""

import gzip
import io
import json
import pickle
import tarfile
import zipfile

import pytest
import zstandard

from apps.ingest.files import source
from apps.ingest.files.raw_records import Layout, RawRow
from apps.ingest.files.source import UnreadableFile, open_source

LIMIT = 1 << 20
A, B = b'{"a": 1}', b'{"b": 2}'


def opened(body: bytes, most_bytes: int = 1 << 40):
    return open_source(io.BytesIO(body), most_bytes=most_bytes)


def bodies(body: bytes) -> list[bytes]:
    return [row.body.strip() for row in opened(body).rows(limit=LIMIT)]


@pytest.mark.parametrize(
    ("body", "layout"),
    [
        (A + b"\n" + B + b"\n", Layout.LINES),
        (A, Layout.LINES),
        (b"\n\n" + A + b"\r\n" + B, Layout.LINES),
        (b"[" + A + b", " + B + b"]", Layout.LIST),
        (b"[\n" + A + b",\n" + B + b"\n]", Layout.LIST),
        (json.dumps([{"a": 1}, {"b": 2}], indent=4).encode(), Layout.LIST),
        (json.dumps({"a": [1, 2], "b": {}}, indent=4).encode(), Layout.VALUES),
        (json.dumps({"a": 1}, indent=4).encode() * 2, Layout.VALUES),
        (b'[{"role": "user"}]\n[{"role": "user"}]\n', Layout.LINES),
        (b'{"a": 1,}\n' + B + b"\n", Layout.LINES),
        (b'{"a": \n' + B + b"\n", Layout.LINES),
        (b'{"a": "' + b"x" * source.HEAD + b'"}', Layout.LINES),
        (b"[" + b",".join([A] * 200_000) + b"]", Layout.LIST),
    ],
)
def test_the_layout_is_found_whatever_the_file_is_called(body, layout):
    assert opened(body).layout is layout


def test_gzip_and_zstd_are_read():
    lines = A + b"\n" + B
    assert bodies(gzip.compress(lines)) == [A, B]
    assert bodies(gzip.compress(A + b"\n") + gzip.compress(B)) == [A, B]
    assert bodies(zstandard.ZstdCompressor().compress(lines)) == [A, B]


def test_a_byte_order_mark_is_skipped():
    assert bodies(b"\xef\xbb\xbf" + A + b"\n" + B) == [A, B]
    assert bodies(gzip.compress(b"\xef\xbb\xbf[" + A + b"]")) == [A]


def archive_of(kind: str) -> bytes:
    out = io.BytesIO()
    if kind == "zip":
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("../../evil.jsonl", A)
    else:
        with tarfile.open(fileobj=out, mode="w") as tar:
            tar.addfile(tarfile.TarInfo("x"))
    return out.getvalue()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b" \n \n", "empty"),
        (archive_of("zip"), "zip archive"),
        (archive_of("tar"), "tar archive"),
        # With a fixed time: pytest names the cases by their bytes, and all processes must use the same names.
        (gzip.compress(archive_of("tar"), mtime=0), "tar archive"),
        (gzip.compress(gzip.compress(A, mtime=0), mtime=0), "compressed twice"),
        (b"PAR1....", "Parquet file that is damaged"),
        (gzip.compress(b"PAR1....", mtime=0), "Parquet file packed again"),
        (b"BZh9...", "bzip2"),
        (b"\xfd7zXZ\x00..", "xz"),
        (b"<!doctype html><title>Sign in</title>", "web page"),
        (b"\n# aider chat started at 2025-01-01 10:00:00\n\n#### Fix it.\n", "aider's chat history"),
        (b"hello", "not JSON"),
        (A.decode().encode("utf-16"), "UTF-16"),
        (A.decode().encode("utf-16-le"), "UTF-16"),
        (b"\x00\x01\x02", "binary"),
    ],
)
def test_what_is_no_json_is_refused_with_what_it_is(body, words):
    with pytest.raises(UnreadableFile, match=words):
        opened(body)


class Bomb:
    """Unpickling this would end the test run."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        raise_system_exit = __import__("os")._exit
        return raise_system_exit, (1,)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_pickles_are_never_opened(protocol):
    with pytest.raises(UnreadableFile, match="pickle"):
        opened(pickle.dumps(Bomb(), protocol=protocol))


def test_a_cut_off_gzip_gives_what_it_holds_and_then_says_so():
    lines = b"".join(b'{"n": %d, "x": "%s"}\n' % (n, str(hash(n * 7919)).encode() * 9) for n in range(50_000))
    whole = gzip.compress(lines)
    rows: list[RawRow] = []
    with pytest.raises(UnreadableFile, match="cut off or damaged"):
        rows.extend(opened(whole[: len(whole) // 2]).rows(limit=LIMIT))
    assert 10_000 < len(rows) < 50_000


def test_a_cut_off_zstd_file_gives_what_it_holds_and_then_says_so():
    first, second = (zstandard.compress(b"".join(b'{"n": %d}\n' % n for n in range(50_000))) for _ in range(2))
    assert len(bodies(first + second)) == 100_000
    for left in (len(first) // 2, 1):
        rows: list[RawRow] = []
        with pytest.raises(UnreadableFile, match="The file is cut off"):
            rows.extend(opened(first + second[:-left]).rows(limit=LIMIT))
        assert 50_000 <= len(rows) < 100_000
    with pytest.raises(UnreadableFile, match="The file is damaged"):
        list(opened(first + b"no frame").rows(limit=LIMIT))


def test_a_damaged_gzip_says_so():
    whole = bytearray(gzip.compress(b"\n".join([A] * 100_000)))
    whole[len(whole) // 2] ^= 0xFF
    with pytest.raises(UnreadableFile, match="cut off or damaged"):
        list(opened(bytes(whole)).rows(limit=LIMIT))


def test_a_decompression_bomb_is_stopped_by_its_ratio(monkeypatch):
    monkeypatch.setattr(source, "RATIO_FROM", 4 << 20)
    bomb = gzip.compress(A + b"\n" * (16 << 20))
    with pytest.raises(UnreadableFile, match="500 times its size"):
        list(opened(bomb).rows(limit=LIMIT))


def test_a_file_that_unpacks_to_more_than_the_limit_is_stopped():
    packed = gzip.compress(b"".join(b'{"n": %d}\n' % n for n in range(400_000)))
    with pytest.raises(UnreadableFile, match="Unpacks to more than"):
        list(opened(packed, most_bytes=3 << 20).rows(limit=LIMIT))


def test_the_bytes_read_are_those_of_the_file_as_it_lies_on_disk():
    packed = gzip.compress(b"".join(b'{"n": %d}\n' % n for n in range(1000)))
    source = opened(packed)
    list(source.rows(limit=LIMIT))
    assert source.bytes_read == len(packed)
