"""Every format has a folder here with a file as its tool writes it (`input.*`) and the result of reading it (`expected.jsonl`)."""

import copy
import itertools
from typing import Any

import pytest

from apps.ingest import formats
from apps.ingest.formats import LISTED, Format, has
from apps.ingest.reading import Reading, ReadTrajectory
from apps.ingest.upload import Upload
from tests.ingest.formats.examples import EXAMPLES, FIXTURES


def test_every_format_has_a_folder_and_every_folder_a_format():
    assert sorted(FIXTURES) == [format.name for format in formats.known()]


@pytest.mark.parametrize("name", sorted(FIXTURES))
def test_a_file_of_a_format_is_read_as_expected(name):
    read: list[Any] = []
    with FIXTURES[name].input.open("rb") as file:
        for record in Upload(file, FIXTURES[name].input.name):
            assert record.format is not None
            assert record.format.name == name
            reading = Reading(record)
            read += reading.collect(_as_json)
            if reading.verdict:
                read.append({"instance_id": reading.verdict.instance, "resolved": reading.verdict.is_resolved})
            assert (reading.refusal, reading.warnings) == (None, [])
    assert read == FIXTURES[name].expected
    assert read


def _as_json(trajectory: ReadTrajectory) -> dict[str, Any]:
    return trajectory.record.to_json()


@pytest.mark.parametrize("name", sorted(FIXTURES))
def test_another_format_claims_a_record_only_where_it_is_declared_who_wins(name):
    format = formats.named(name)
    claimants = [other for other in formats.known() if other.recognizes(EXAMPLES[name])]
    assert format in claimants
    assert all(other.defers_to(format) for other in claimants if other is not format)
    assert not any(format.defers_to(other) for other in claimants)


@pytest.mark.parametrize("name", sorted(set(FIXTURES) - {"wrapped"}))  # it reads records with any keys
def test_a_record_is_never_of_a_format_whose_keys_it_lacks(name):
    format = formats.named(name)
    row = EXAMPLES[name]
    present = [keys.split() for keys in format.keys if all(has(row, key) for key in keys.split())]
    assert present
    for removed in itertools.product(*present):
        lacking = copy.deepcopy(row)
        for key in removed:
            _remove(lacking, key.removeprefix(LISTED).split("."))
        assert not format.recognizes(lacking), removed


def _remove(value: Any, names: list[str]) -> None:
    """Remove a key at a path, from all elements of lists on the way."""
    if isinstance(value, list):
        for item in value:
            _remove(item, names)
    elif isinstance(value, dict):
        name, *rest = names
        for key in list(value) if name == "*" else [name] if name in value else []:
            if rest:
                _remove(value[key], rest)
            else:
                del value[key]


def test_no_two_formats_each_give_way_to_the_other():
    pairs: list[tuple[Format, Format]] = list(itertools.combinations(formats.known(), 2))
    assert not [(one.name, two.name) for one, two in pairs if one.defers_to(two) and two.defers_to(one)]


def test_formats_give_way_to_formats_that_exist():
    names = {format.name for format in formats.known()}
    assert all(names.issuperset(format.yields_to) for format in formats.known())
