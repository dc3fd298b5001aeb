"""Takes the pictures of the documentation from a demo workspace: `make screenshots` while `make run` is running.

RETRACE_URL names another address than the running stack's.
"""

from pathlib import Path
from typing import NamedTuple

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
