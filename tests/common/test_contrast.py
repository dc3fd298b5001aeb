"""The colors of static/css/tokens.css, in both themes, against WCAG 2.2 AA."""

import re
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

TOKENS = (Path(__file__).parents[2] / "static/css/tokens.css").read_text()
WORDS = 4.5  # text (SC 1.4.3)
SIGNS = 3.0  # borders of controls, marks of states and of charts (SC 1.4.11)


class Both(NamedTuple):
    day: str
    night: str


PAIRS = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", TOKENS)
COLORS = {name: Both(day, night) for name, day, night in PAIRS} | {"on-accent": Both("#ffffff", "#ffffff")}
KINDS = [name for name in COLORS if name.startswith("kind-")]
SERIES = [name for name in COLORS if re.fullmatch(r"series-\d", name)]


def luminance(color):
    """Relative luminance of an sRGB color, 0 to 1 (WCAG 2.2, "relative luminance")."""
    channels = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_is_21_to_1():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize(
    ("front", "back", "needed"),
    [
        *product(["text", "muted", "faint", "accent", *KINDS], ["ground", "sunk", "raised"], [WORDS]),
        *product(["text", "muted"], ["hover", "pressed", "picked", "good-soft", "bad-soft", "notice-soft"], [WORDS]),
        *((tone, f"{tone}-soft", WORDS) for tone in ("good", "bad", "notice", "accent")),
        *product(["good", "bad", "notice"], ["ground", "raised"], [WORDS]),
        *product(["on-accent"], ["accent-fill", "accent-fill-hover", "bad-fill", "bad-fill-hover"], [WORDS]),
        *product(
            ["line-control", "focus", "good-fill", "bad-fill", "accent-fill", *SERIES], ["ground", "raised"], [SIGNS]
        ),
    ],
)
def test_contrast_is_enough_in_both_themes(front, back, needed):
    day = contrast(COLORS[front].day, COLORS[back].day)
    night = contrast(COLORS[front].night, COLORS[back].night)
    assert min(day, night) >= needed, f"--{front} on --{back}: {day:.2f} by day, {night:.2f} by night; {needed} needed"
