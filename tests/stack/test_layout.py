"""Rules for the layout of the tests."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def test_folders_of_tests_are_no_packages() -> None:
    """With an `__init__.py`, pytest would import tests/datasets as `datasets`, hiding the library of that name."""
    assert list(TESTS.rglob("__init__.py")) == []
