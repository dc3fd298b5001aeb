"""Rules for all templates."""

import json
import re
from pathlib import Path

from django.contrib.staticfiles import finders
from django.template.loader import render_to_string
from django.urls import get_resolver

from apps.common.templatetags.nonce import HTMX, nonce_of
from tests.white_space import collapsed

TEMPLATES = Path(__file__).parents[2] / "templates"
PATHS = [path for path in TEMPLATES.rglob("*") if path.suffix in {".html", ".jinja"}]
SOURCES = {path.relative_to(TEMPLATES).as_posix(): path.read_text() for path in PATHS}


def found(pattern):
    """(template, first group or whole match) of every match in any template."""
    return [
        (name, match[match.lastindex or 0])
        for name, source in sorted(SOURCES.items())
        for match in re.finditer(pattern, source)
    ]


def names_of(resolver, prefix=""):
    """Every URL name that {% url %} may use."""
    for pattern in resolver.url_patterns:
        if hasattr(pattern, "url_patterns"):
            yield from names_of(pattern, f"{prefix}{pattern.namespace}:" if pattern.namespace else prefix)
        elif pattern.name:
            yield prefix + pattern.name


def test_no_template_has_inline_code_or_styles():
    assert found(r"<[^>]*\s(?:style|on\w+|hx-on\S*)\s*=|<style|<script(?![^>]*\ssrc=)") == []


def test_no_punctuation_follows_an_included_template():
    # An included template ends with a line break, which browsers render as a space.
    assert found(r"{%\s*include [^%]*%}(?:{%[^%]*%}|</?\w[^<>]*>)*[,;.:)]") == []


def test_every_address_that_a_template_names_exists():
    known = set(names_of(get_resolver()))
    named = found(r"{%-?\s*url\s+['\"]([\w:]+)['\"]")
    assert len(named) > 50
    # `{% url … as … %}` ignores wrong names: the link would just be missing.
    assert [(template, name) for template, name in named if name not in known] == []


def test_every_icon_that_a_template_names_is_in_the_sprite():
    sprite = (TEMPLATES.parent / "static" / "icons.svg").read_text()
    known = set(re.findall(r'<symbol id="([\w-]+)"', sprite))
    named = found(r"""{%\s*icon\s+['"]([\w-]+)['"]""") + found(r"""symbol=['"]([\w-]+)['"]""")
    assert len(named) > 50
    assert [(template, name) for template, name in named if name not in known] == []


def tags_of(source):
    """Every opening tag, with template tags removed."""
    plain = re.sub(r"{%.*?%}|{{.*?}}", lambda match: re.sub(r"[<>\"']", "_", match[0]), source)
    return re.findall(r"<[a-z][^<>]*>", plain)


def acts(tag):
    """Whether this tag makes htmx or the browser send an authenticated request."""
    return re.search(r"\s(?:data-)?hx-[\w:-]+=|\sformaction=|\sformmethod=|^<form\b[^>]*\smethod=\"post\"", tag)


def test_every_element_that_sends_carries_the_nonce():
    acting = [(name, tag) for name, source in SOURCES.items() for tag in tags_of(source) if acts(tag)]
    assert len(acting) > 80
    assert [(name, tag) for name, tag in acting if ' data-nonce="{% nonce %}"' not in tag] == []
    marked = sum(source.count("data-nonce=") for source in SOURCES.values())
    others = 3  # the meta element, the body, the desk
    assert marked == len(acting) + others  # a nonce on any other element would add a target for injected markup


def test_htmx_is_told_to_ignore_every_attribute_of_its_own_without_the_nonce():
    path = finders.find("django_htmx/htmx-2.js")
    source = Path(path).read_text()
    read = set(re.findall(r"""['"\[(]hx-([a-z]+(?:-[a-z]+)*)""", source)) - {"disable"}
    assert {"include", "trigger", "vals", "boost"} <= read  # attribute names are generated from VERBS
    assert read <= set(HTMX)


def test_htmx_evaluates_nothing_and_leaves_unmarked_elements_alone(rf):
    html = collapsed(render_to_string("alone.html", request=rf.get("/")))
    config = json.loads(re.search(r"<meta name=\"htmx-config\" content='([^']*)'>", html)[1])
    assert (config["allowEval"], config["allowScriptTags"], config["selfRequestsOnly"]) == (False, False, True)
    assert config["allowNestedOobSwaps"] is False
    nonce = re.search(r'<meta name="nonce" data-nonce="(n[0-9a-f]{32})">', html)[1]
    assert config["disableSelector"].endswith(f":not([data-nonce={nonce}])")
    assert "[hx-post],[data-hx-post]," in config["disableSelector"]


def test_the_nonce_is_a_browsers_own(rf):
    first, other = rf.get("/"), rf.get("/")
    again = rf.get("/")
    nonce = nonce_of(first)
    again.META["CSRF_COOKIE"] = first.META["CSRF_COOKIE"]
    assert nonce_of(again) == nonce != nonce_of(other)
    assert first.META["CSRF_COOKIE"] not in nonce
