"""Static typing of the client: results of both kinds of client, and errors for wrong arguments."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import retrace

def waiting(client: retrace.Client) -> None:
    reveal_type(client.runs.read("id"))
    reveal_type(client.runs.list())
    reveal_type(client.wait(client.runs.read("id")))
    reveal_type(client.queues.next("id"))
    client.runs.launch(algorithm="sft", preset="hasty")
    client.runs.launch(preset="quick")
    client.datasets.create(name="Orders", color="red")
    client.runs.read()

async def in_a_loop(client: retrace.AsyncClient) -> None:
    reveal_type(await client.runs.read("id"))
    reveal_type(client.runs.list())
    reveal_type(await client.wait(await client.runs.read("id")))
    client.runs.read("id").state
"""


def test_a_type_checker_sees_through_both_clients(tmp_path: Path) -> None:
    """Uses the project's mypy settings, so that the cache of `make lint` is reused."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", str(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    messages = re.findall(r'program\.py:(\d+): (?:note: Revealed type is "(.*)"|error: (.*?)  \[)', done.stdout)
    assert [(int(line), known or error) for line, known, error in messages] == [
        (5, "retrace.models.runs.Run"),
        (6, "typing.Iterator[retrace.models.runs.Run]"),
        (7, "retrace.models.runs.Run"),
        (8, "retrace.models.queues.Held | None"),
        (
            9,
            'Argument "preset" has incompatible type "Literal[\'hasty\']"; '
            "expected \"Literal['quick', 'standard', 'thorough']\"",
        ),
        (10, 'Missing named argument "algorithm"'),
        (11, 'Unexpected keyword argument "color"'),
        (12, "Too few arguments"),
        (15, "retrace.models.runs.Run"),
        (16, "typing.AsyncIterator[retrace.models.runs.Run]"),
        (17, "retrace.models.runs.Run"),
        (18, '"Coroutine[Any, Any, Run]" has no attribute "state"'),
    ], done.stdout
