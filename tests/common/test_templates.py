"""What holds for every template."""

import re
from pathlib import Path

from django.urls import get_resolver

TEMPLATES = Path(__file__).parents[2] / "templates"
SOURCES = {path.relative_to(TEMPLATES).as_posix(): path.read_text() for path in TEMPLATES.rglob("*.html")}


def found(pattern):
    """(template, first group or whole match) of every match in any template."""
    return [
        (name, match[match.lastindex or 0])
        for name, source in sorted(SOURCES.items())
        for match in re.finditer(pattern, source)
    ]


def names_of(resolver, prefix=""):
    """Every name that {% url %} may give."""
    for pattern in resolver.url_patterns:
        if hasattr(pattern, "url_patterns"):
            yield from names_of(pattern, f"{prefix}{pattern.namespace}:" if pattern.namespace else prefix)
        elif pattern.name:
            yield prefix + pattern.name


def test_no_template_has_inline_code_or_styles():
    assert found(r"<[^>]*\s(?:style|on\w+|hx-on\S*)\s*=|<style|<script(?![^>]*\ssrc=)") == []


def test_every_address_that_a_template_names_exists():
    known = set(names_of(get_resolver()))
    named = found(r"{%-?\s*url\s+['\"]([\w:]+)['\"]")
    assert len(named) > 50
    # `{% url … as … %}` says nothing about a name that is wrong: the link would just be missing.
    assert [(template, name) for template, name in named if name not in known] == []


def test_every_icon_that_a_template_names_is_in_the_sprite():
    sprite = (TEMPLATES.parent / "static" / "icons.svg").read_text()
    known = set(re.findall(r'<symbol id="([\w-]+)"', sprite))
    named = found(r"""{%\s*icon\s+['"]([\w-]+)['"]""") + found(r"""symbol=['"]([\w-]+)['"]""")
    assert len(named) > 50
    assert [(template, name) for template, name in named if name not in known] == []
