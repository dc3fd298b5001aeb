"""Human-readable numbers. Pure; the only number formatting used in the UI and messages."""

import math
from collections.abc import Sequence
from datetime import datetime

MISSING = "–"


def duration(seconds: float | None) -> str:
    """0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return _two_units(rounded, 60, "min", 1, "s")
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return _two_units(minutes, 60, "h", 1, "min")
    return _two_units(round(seconds / 3600), 24, "d", 1, "h")


def _two_units(amount: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    first, rest = divmod(amount, large)
    return f"{first} {large_unit}" + (f" {rest // small} {small_unit}" if rest else "")


def size(count: float | None) -> str:
    """Bytes in decimal units: 512 B, 1.4 kB, 3.2 GB."""
    if count is None:
        return MISSING
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 999.5:
            return f"{count:.0f} B" if unit == "B" else f"{_short(count)} {unit}"
        count /= 1000
    return f"{_short(count)} TB"


def count(number: float | None) -> str:
    """Exact below 100,000; then 123 k, 4.5 M."""
    if number is None:
        return MISSING
    if abs(number) < 100_000:
        return f"{number:,.0f}"
    if abs(number) < 999_500:
        return f"{number / 1000:.0f} k"
    if abs(number) < 999_500_000:
        return f"{_short(number / 1e6)} M"
    return f"{_short(number / 1e9)} G"


def counted(number: int, one: str, many: str = "") -> str:
    """1 row; 1,234 rows. `many`: the plural, unless it's `one` with an s."""
    return f"{count(number)} {one if number == 1 else many or f'{one}s'}"


def percent(share: float | None) -> str:
    """0.618 as 62 %; 0.004 as 0.4 %; 0.996 as 99.6 %: only exact values show as 0 or 100."""
    if share is None or math.isnan(share):
        return MISSING
    value = share * 100
    near_an_end = 0 < value < 1 or 99 < value < 100
    if not near_an_end:
        return f"{value:.0f} %"
    if value < 0.1:
        return "<0.1 %"
    return ">99.9 %" if value > 99.9 else f"{value:.1f} %"


def decimal(number: float | None) -> str:
    """A coefficient with two decimals and a true minus sign: 0.58, −0.62."""
    return MISSING if number is None or math.isnan(number) else f"{number:z.2f}".replace("-", "−")


def figure(number: float | None) -> str:
    """A measured number with three significant digits: 0.0123, 12.3, 1,230."""
    if number is None or math.isnan(number):
        return MISSING
    if number != 0 and (abs(number) < 1e-4 or abs(number) >= 1e7):
        return f"{number:.1e}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def relative(time: datetime, now: datetime) -> str:
    """ "now", "5 min ago", "in 2 h", "3 d ago", "3 Mar", "3 Mar 2024". Keep in sync with static/js/core/time.js."""
    seconds = (now - time).total_seconds()
    gap = abs(seconds)
    if gap < 45:
        return "now"
    for limit, unit, word in ((45 * 60, 60, "min"), (22 * 3600, 3600, "h"), (6.5 * 86400, 86400, "d")):
        if gap < limit:
            amount = max(1, round(gap / unit))
            return f"{amount} {word} ago" if seconds > 0 else f"in {amount} {word}"
    day = f"{time.day} {time:%b}"
    return day if time.year == now.year else f"{day} {time.year}"


def polyline(values: Sequence[float], *, width: float, height: float) -> str:
    """SVG points of a curve through `values`, spread over the width."""
    if not values:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or 1
    step = width / max(1, len(values) - 1)
    return " ".join(
        f"{i * step:.1f},{height - 1 - (value - low) / span * (height - 2):.1f}" for i, value in enumerate(values)
    )


def _short(number: float) -> str:
    return f"{number:.1f}" if abs(number) < 9.95 else f"{number:.0f}"
