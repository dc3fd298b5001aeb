"""The option `--limit` of lists."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")
LARGEST_PAGE = 1000


def add_limit(parser: argparse.ArgumentParser) -> None:
    """The argument that `newest` takes."""
    parser.add_argument("--limit", type=_count, default=20, metavar="COUNT", help="default: 20")


def newest(listing: Callable[..., Iterator[T]], limit: int) -> Iterator[T]:
    """The first `limit` entries of a list, in as few requests as possible."""
    return islice(listing(page_size=min(limit, LARGEST_PAGE)), limit)


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} isn't a count. Expected a whole number from 1.")
    return int(text)
