"""`python -m apps.ingest`, in an environment where Django can't be imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.ingest.formats.examples import FIXTURES

ROOT = Path(__file__).resolve().parents[2]
BLOCKED = """
import sys
for name in ("django", "rest_framework", "celery", "psycopg", "torch"):
    sys.modules[name] = None
import runpy
sys.argv = ["apps.ingest", *sys.argv[1:]]
runpy.run_module("apps.ingest", run_name="__main__")
"""


def ingest(*files: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCKED, *map(str, files)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_a_file_becomes_retrace_lines():
    fixture = FIXTURES["openai-chat"]
    done = ingest(fixture.input)
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line) for line in done.stdout.splitlines()] == fixture.expected


def test_what_is_read_can_be_read_again(tmp_path: Path):
    again = tmp_path / "again.jsonl"
    again.write_text(ingest(FIXTURES["tau2-bench"].input, FIXTURES["judged-pairs"].input).stdout)
    assert len(again.read_text().splitlines()) == 3
    assert ingest(again).stdout == again.read_text()


def test_a_bad_record_is_told_with_its_place_and_the_others_are_read(tmp_path: Path):
    file = tmp_path / "runs.jsonl"
    chat = json.dumps({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})
    file.write_text(f'{chat}\n{{"messages": [7]}}\n{chat[:-1]}, "reward": NaN}}\n{{"n": {"1" * 5000}}}\n')
    done = ingest(file)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr.splitlines() == [
        f"{file}:2: A message is a number. Expected: Each message is an object with `role` and `content`.",
        f"{file}:3: The reward of the run is NaN; it is kept without a reward.",
        f"{file}:4: A number has 5,000 digits; at most 300 fit. Expected: One JSON value in UTF-8.",
    ]


def test_files_that_are_not_there_and_unknown_ones_are_told_and_the_others_read(tmp_path: Path):
    (tmp_path / "odd.json").write_text('{"a": 1}')
    good = FIXTURES["sharegpt"]
    done = ingest(tmp_path / "none.json", tmp_path / "odd.json", good.input)
    assert done.returncode == 2
    assert [json.loads(line) for line in done.stdout.splitlines()] == good.expected
    none, odd = done.stderr.splitlines()
    assert none == f"{tmp_path / 'none.json'}: No such file or directory."
    assert odd.startswith(f"{tmp_path / 'odd.json'}: No known format: the first record has the keys `a`.")


def test_a_report_holds_no_run():
    done = ingest(FIXTURES["swe-bench-report"].input)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0].endswith("An outcome of owner__repo-1 without a trajectory.")


def test_memory_does_not_grow_with_the_file(tmp_path: Path):
    """The peak memory in kB for a file of 2 MB and for one of 60 MB."""
    peaks = []
    messages = [{"role": role, "content": "x" * 10_000} for role in ("user", "assistant")]
    for count in (100, 3000):
        file = tmp_path / f"{count}.jsonl"
        with file.open("w") as out:
            out.writelines(json.dumps({"id": number, "messages": messages}) + "\n" for number in range(count))
        process = subprocess.Popen(
            [sys.executable, "-m", "apps.ingest", str(file)], cwd=ROOT, stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        assert status == 0
        peaks.append(usage.ru_maxrss)
    assert peaks[1] - peaks[0] < 20_000


def test_a_reader_that_has_enough_ends_it_quietly():
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "apps.ingest", str(FIXTURES["sharegpt"].input)],
        cwd=ROOT,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    assert done.stderr == b""
