"""Import: steps per second from a JSON Lines file into all tables, compared with a bare COPY of the same rows in the same run.

The limit is 15,000 steps per second, a third of what COPY alone does on two cores. The remaining time is measured stage by stage on a sample:
reading and preparing run in a thread while PostgreSQL writes, so the stages add up to more than the whole.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from django.db import connection

from apps.accounts.models import Workspace
from apps.ingest import formats
from apps.ingest.files.source import open_source
from apps.jobs.models import JobState
from apps.trajectories.imports import preparation
from apps.trajectories.imports.import_job import run_import
from apps.trajectories.imports.upload import start_import, store
from apps.trajectories.models import ImportBatch, Original, Step, Trajectory
from apps.trajectories.outlines import outline
from bench.harness import Figure, Size, elapsed, watch_memory
from contract import jsontext
from contract import trajectory as record_types

STEPS_A_SECOND = 15_000
MEMORY_MB = 250
SAMPLE = 1_000
"""Number of trajectories for measuring the stages."""

BLOCK = 1 << 20
TABLES = (Trajectory, Step, Original)


def write_file(path: Path, size: Size) -> None:
    """Trajectories of an agent in a shell: every step is a call and its result, 1 KB together, all different."""
    draw = random.Random(1)
    vocabulary = [f"w{draw.randrange(10**6):x}" for _ in range(5000)]
    word_count = (size.step_bytes - 400) // 7  # words of seven characters including the space
    with path.open("wb") as file:
        for number in range(size.trajectories):
            steps = [_step(draw, vocabulary, word_count, step, size.steps) for step in range(size.steps)]
            row = {
                "format": "retrace/1",
                "id": f"run-{number}",
                "task": {
                    "key": f"task-{number % (size.items // 10 or 1)}",
                    "instruction": "Do it.",
                    "environment": "bench",
                },
                "policy": f"policy-{number % 4}",
                "steps": steps,
                "outcome": {"reward": number % 2, "success": number % 2 == 1, "termination": "done"},
            }
            file.write(orjson.dumps(row) + b"\n")


def _step(draw: random.Random, vocabulary: list[str], word_count: int, step: int, steps: int) -> dict[str, Any]:
    output = " ".join(draw.choices(vocabulary, k=word_count))
    context = (
        {"role": "tool", "tool_call_id": f"c{step - 1}", "content": output}
        if step
        else {"role": "user", "content": output}
    )
    arguments = orjson.dumps({"command": f"grep -rn {' '.join(draw.choices(vocabulary, k=6))}"}).decode()
    call = {"id": f"c{step}", "type": "function", "function": {"name": "bash", "arguments": arguments}}
    return {
        "context": [context],
        "message": {"role": "assistant", "content": "I look further.", "tool_calls": [call]},
        "reward": 0.0,
        "done": step == steps - 1,
        "seconds": 1.5,
        "prompt_tokens": 900,
        "completion_tokens": 60,
    }


def bring_in(path: Path, workspace: Workspace) -> ImportBatch:
    """Import a file as a worker does."""
    with path.open("rb") as file:
        stored = store(file, filename=path.name)
    batch = start_import(workspace_id=workspace.pk, stored=stored, created_by=None, queue=False)
    done = run_import(batch.pk, watch=lambda _: None)
    if done is None or done.state != JobState.DONE:
        raise RuntimeError(f"The import is {done and done.state}: {done and done.error}")
    return done


def bare_copy(folder: Path) -> float:
    """Seconds that COPY from files takes for the same rows of all tables, including indexes and foreign keys."""
    raw: Any = connection.connection
    names = [table._meta.db_table for table in TABLES]
    for name in names:
        out = f"COPY {name} TO STDOUT (FORMAT binary)"
        with (folder / name).open("wb") as file, raw.cursor() as cursor, cursor.copy(out) as copy:
            file.writelines(copy)
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(names)} CASCADE")
    with elapsed() as timer:
        for name in names:
            into = f"COPY {name} FROM STDIN (FORMAT binary)"
            with (folder / name).open("rb") as file, raw.cursor() as cursor, cursor.copy(into) as copy:
                while block := file.read(BLOCK):
                    copy.write(block)
    return timer.seconds


def stages(path: Path, steps: int) -> Iterator[tuple[str, float]]:
    """Microseconds per step of each preparation stage."""
    with path.open("rb") as file:
        rows = open_source(file, most_bytes=1 << 40).rows(limit=1 << 27)
        with elapsed() as split:
            bodies = [row.body for row, _ in zip(rows, range(SAMPLE), strict=False)]
    read_row = formats.named("retrace").read
    parsed = [jsontext.loads(body) for body in bodies]
    records: list[record_types.Trajectory] = [record for row in parsed for record in read_row(row, path.name)]
    outlines = [outline(record) for record in records]
    acted = [preparation.acted_in(record) for record in records]
    ready = list(zip(records, outlines, acted, strict=True))
    timed: list[tuple[str, Callable[[Any], object], Sequence[Any]]] = [
        ("parse JSON", jsontext.loads, bodies),
        ("check and convert", lambda row: list(read_row(row, path.name)), parsed),
        ("hash", record_types.Trajectory.content_hash, records),
        ("outline", outline, records),
        ("digest what was done", preparation.acted_in, records),
        ("encode", lambda parts: preparation._encode_steps(b"0" * 16, *parts), ready),
        ("compress the original", lambda body: preparation._encode_original(b"0" * 16, body), bodies),
    ]
    yield "split", split.seconds * 1e6 / (len(bodies) * steps)
    for name, work, inputs in timed:
        with elapsed() as timer:
            for item in inputs:  # results are dropped at once, as in the import
                work(item)
        yield name, timer.seconds * 1e6 / (len(bodies) * steps)


def measure(size: Size) -> Iterator[Figure]:
    """Import the file, COPY the same rows, and time the stages."""
    workspace = Workspace.objects.create(name="bench", slug="bench")
    total = size.trajectories * size.steps
    with TemporaryDirectory(prefix="retrace-bench-import-") as name:
        path = Path(name) / "runs.jsonl"
        write_file(path, size)
        sizes = {"trajectories": size.trajectories, "steps": total, "bytes_a_step": path.stat().st_size // total}
        with elapsed() as timer, watch_memory() as memory:
            batch = bring_in(path, workspace)
        if batch.step_count != total:
            raise RuntimeError(f"Expected {total} steps; got {batch.step_count}, {batch.rejected_count} rows rejected")
        yield Figure(
            name="importing",
            value=total / timer.seconds,
            unit="steps/s",
            limit=STEPS_A_SECOND,
            better="higher",
            with_=sizes,
        )
        yield Figure(name="importing: memory", value=memory.growth, unit="MB", limit=MEMORY_MB, with_=sizes)
        with elapsed() as second_import:
            bring_in(path, workspace)
        yield Figure(
            name="importing: the same file again", value=total / second_import.seconds, unit="steps/s", with_=sizes
        )
        yield Figure(name="importing: bare COPY", value=total / bare_copy(Path(name)), unit="steps/s", with_=sizes)
        for stage, microseconds in stages(path, size.steps):
            yield Figure(name=f"importing: {stage}", value=microseconds, unit="µs/step", with_={"trajectories": SAMPLE})
