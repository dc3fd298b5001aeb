"""A small, complete record of each format, from the folder with its name. For files whose lines form one record, a list of the lines."""

import json
from pathlib import Path
from typing import Any, NamedTuple


class Fixture(NamedTuple):
    """A folder `<format>/`: an `input` file, and the resulting retrace/1 in `expected.jsonl`."""

    format: str
    input: Path
    expected: list[Any]


def _fixture(folder: Path) -> Fixture:
    [input_path] = folder.glob("input.*")
    return Fixture(folder.name, input_path, lines_of(folder / "expected.jsonl"))


def lines_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _record_in(path: Path) -> Any:
    return lines_of(path) if path.suffix == ".jsonl" else json.loads(path.read_text())


FIXTURES = {path.parent.name: _fixture(path.parent) for path in Path(__file__).parent.glob("*/expected.jsonl")}
EXAMPLES: dict[str, Any] = {name: _record_in(fixture.input) for name, fixture in FIXTURES.items()}
