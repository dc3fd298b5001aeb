"""Takes the pictures of the documentation from a demo workspace: `make screenshots` while `make run` is running.

RETRACE_URL names another address than the running stack's.
"""

import os
import sys
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

from apps.common.stack import paths
from apps.common.stack.lock import read_lock
from apps.demo.sign_ins import PASSWORD, RESEARCHER
from tests.browser import chromium

PICTURES = Path(__file__).parent / "pictures"
WIDE = {"width": 1280, "height": 800}


class Picture(NamedTuple):
    """A page to take: the links to follow from a list page, by the text of the link."""

    name: str
    path: str
    links: tuple[str, ...] = ()
    dark: bool = False


PICTURES_WANTED = (
    Picture("home", "/"),
    Picture("replay", "/trajectories/?policy=careless", ("first row",)),
    Picture("desk", "/queues/", ("Office runs", "Label")),
    Picture("desk-dark", "/queues/", ("Office runs", "Label"), dark=True),
    Picture("queue", "/queues/", ("Office runs",)),
    Picture("version", "/datasets/", ("Office preferences", "1")),
    Picture("run", "/runs/", ("office-sft",)),
    Picture("experiment", "/experiments/", ("Hasty or careless?",)),
)
