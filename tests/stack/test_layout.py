"""Rules of the tests' own folders."""

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def test_folders_of_tests_are_no_packages() -> None:
    """With an `__init__.py` pytest imports tests/datasets as `datasets`, in the place of the library of that name."""
    assert list(TESTS.rglob("__init__.py")) == []
