"""Common template tags: icons, times, numbers with units, small charts."""

import json
from collections.abc import Sequence
from datetime import datetime

from django import template
from django.forms import BoundField
from django.template import Context
from django.templatetags.static import static
from django.utils.dateformat import format as format_date
from django.utils.timezone import localtime, now

from apps.common import quantities
from apps.common.markup import Markup, element, joined

register = template.Library()


@register.simple_tag
def icon(name: str, label: str = "") -> Markup:
    """An icon from the sprite, hidden from screen readers unless it has a label."""
    href = f"{static('icons.svg')}#{name}"
    if not label:
        return element("svg", element("use", href=href), class_="icon", aria_hidden="true")
    return element(
        "svg", element("title", label), element("use", href=href), class_="icon", role="img", aria_label=label
    )


@register.filter
def key_of(field: BoundField) -> str:
    """The keyboard shortcut that focuses a form field; empty if none."""
    return str(field.field.widget.attrs.get("data-key", ""))


@register.inclusion_tag("components/_sorted.html", takes_context=True)
def sorted_head(context: Context, title: str, css: str = "") -> dict[str, object]:
    """A sortable column header for the list of `sorting`."""
    return {"request": context["request"], "head": context["sorting"].head(title), "css": css}


@register.inclusion_tag("components/_sort_menu.html", takes_context=True)
def sort_menu(context: Context) -> dict[str, object]:
    """A menu of the list's orders, for screens too narrow for column headers."""
    return {"request": context["request"], "sorting": context["sorting"]}


@register.simple_tag
def ago(moment: datetime | None, missing: str = "–") -> Markup | str:
    """A relative time, exact on hover. Without scripts, it's correct as of rendering."""
    if moment is None:
        return missing
    exact = format_date(localtime(moment), "j M Y, H:i:s e")
    text = quantities.relative(moment, now())
    return element("time", text, datetime=moment.isoformat(timespec="seconds"), title=exact, data_relative=True)


@register.filter
def with_code(text: object) -> Markup | str:
    """Text with backtick spans as code. Existing markup is kept."""
    if isinstance(text, Markup):
        return text
    parts = str(text).split("`")
    if len(parts) % 2 == 0:  # an unmatched backtick
        return joined([str(text)])
    return joined(element("code", part) if i % 2 else part for i, part in enumerate(parts))


@register.filter
def as_json(value: object) -> str:
    """JSON for a data- attribute parsed by a module; empty values become {}."""
    return json.dumps(value or {}, ensure_ascii=False)


@register.filter
def duration(seconds: float | None) -> str:
    """0.4 s, 12 s, 3 min 20 s, 2 h 5 min."""
    return quantities.duration(seconds)


@register.filter
def size(count: float | None) -> str:
    """Bytes as text: 512 B, 1.4 kB, 3.2 GB."""
    return quantities.size(count)


@register.filter
def count(number: float | None) -> str:
    """1,234 below 100,000; 123 k and 4.5 M above."""
    return quantities.count(number)


@register.filter
def percent(share: float | None) -> str:
    """0.618 as 62 %; small and nearly whole shares keep a decimal."""
    return quantities.percent(share)


@register.filter
def figure(number: float | None) -> str:
    """A measured number with three significant digits."""
    return quantities.figure(number)


@register.filter
def decimal(number: float | None) -> str:
    return quantities.decimal(number)


@register.simple_tag
def sparkline(values: Sequence[float], label: str = "") -> Markup:
    """A curve the size of a word."""
    points = quantities.polyline(values, width=80, height=20)
    return element(
        "svg",
        element("polyline", points=points),
        class_="spark",
        viewBox="0 0 80 20",
        preserveAspectRatio="none",
        role="img",
        aria_label=label or f"{len(values)} values",
    )


@register.simple_tag
def interval(value: float, low: float, high: float, middle: float = 0.5) -> Markup:
    """An estimate in [0, 1] with its interval, as a bar; show the numbers next to it."""
    return element(
        "svg",
        element("rect", class_="track", y=4, width=100, height=4, rx=1),
        element(
            "rect", class_="span", x=f"{low * 100:.1f}", y=3, width=f"{max(high - low, 0.01) * 100:.1f}", height=6, rx=1
        ),
        element("line", class_="mid", x1=f"{middle * 100:.1f}", x2=f"{middle * 100:.1f}", y1=0, y2=12),
        element("rect", class_="point", x=f"{value * 100 - 1:.1f}", y=1, width=2, height=10),
        class_="interval",
        viewBox="0 0 100 12",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{quantities.percent(value)}, between {quantities.percent(low)} and {quantities.percent(high)}",
    )
