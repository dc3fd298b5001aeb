"""The only module that creates markup, and the check that keeps it the only one."""

import importlib.util
from pathlib import Path

import pytest

from apps.common import compiled_templates, markup
from apps.common.markup import UnknownMarkup, element, joined, sanitized
from apps.trajectories.rendering.heads import StepHead
from apps.trajectories.rendering.kinds import OTHER

ROOT = Path(__file__).resolve().parents[2]
PAYLOAD = "\"'><i hx-post=/x hx-trigger=load>&</i>"
ESCAPED = "&quot;&#x27;&gt;&lt;i hx-post=/x hx-trigger=load&gt;&amp;&lt;/i&gt;"


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("ci_markup", ROOT / ".ci" / "markup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_text_is_escaped_in_elements_and_attributes():
    assert element("span", PAYLOAD, title=PAYLOAD) == f'<span title="{ESCAPED}">{ESCAPED}</span>'
    assert joined([element("code", "a<b"), "<i>"]) == "<code>a&lt;b</code>&lt;i&gt;"


@pytest.mark.parametrize("name", ["script", "form", "i hx-post=/x", "iframe", "style", "button"])
def test_tags_that_run_or_send_are_refused(name):
    with pytest.raises(UnknownMarkup, match="is not among the tags"):
        element(name)


@pytest.mark.parametrize("name", ["onclick", "style", "hx_post", "data_hx_post", "hx_on", "srcdoc", "formaction", "id"])
def test_attributes_that_run_or_send_are_refused(name):
    with pytest.raises(UnknownMarkup, match="is not among the attributes"):
        element("a", **{name: "x"})


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", " JavaScript:alert(1)", "data:text/html,x", "vbscript:x", "java\tscript:x"]
)
def test_addresses_that_run_are_refused(address):
    assert not markup.is_web_address(address)
    with pytest.raises(UnknownMarkup, match="leads to"):
        element("a", "x", href=address)


@pytest.mark.parametrize(
    "html",
    [
        '<i data-injected hx-post="/x" hx-trigger="load">a</i>',
        '<p hx-get="/x" data-hx-get="/x" data-live="/x" onclick="x()" style="x" id="main" class="toast">a</p>',
        '<a href="javascript:alert(1)">a</a><svg onload="x()"><use href="#a"/></svg>',
        '<form action="/x" method="post"><button>a</button></form><meta http-equiv="refresh" content="0">',
        "<textarea></textarea><template><img src=x onerror=x()></template></template></script>",
    ],
)
def test_of_markup_made_elsewhere_only_structure_survives(html):
    clean = sanitized(html)
    for word in ("hx-", "data-", "on", "style", "id=", "class=", "javascript", "svg", "form", "meta", "img", "script"):
        assert f"<{word}" not in clean
        assert f" {word}" not in clean


def test_a_compiled_template_escapes_what_is_not_markup():
    head = StepHead(0, 1, OTHER, PAYLOAD, PAYLOAD, PAYLOAD, True, None, None, None, None)
    written = compiled_templates.render_macro("trajectories/steps.jinja", "head", head, PAYLOAD)
    assert PAYLOAD not in written
    assert isinstance(written, markup.Markup)
    assert '<svg class="icon"' in written  # markup stays


def test_only_what_a_template_escaped_is_taken_from_it():
    with pytest.raises(UnknownMarkup, match="text, not markup"):
        markup.of_template("<i>")


def test_the_project_makes_markup_in_one_place_only(check):
    assert [str(finding) for finding in check.findings()] == []


def test_each_way_around_it_is_found_with_its_line(check):
    python = (
        "from django.utils.safestring import mark_safe\n\nx = Markup('<b>')\n\ndef __html__(self): ...\n# format_html\n"
    )
    assert [(problem.line, problem.name) for problem in check.in_python("a.py", python)] == [
        (1, "mark_safe"),
        (5, "__html__"),
        (3, "Markup()"),
    ]
    template = "{{ a }}\n{{ a|safe }}{{ b | safeseq }}\n{% autoescape off %}{% endautoescape %}{{ safe }}"
    assert [problem.line for problem in check.in_template("a.html", template)] == [2, 2, 3, 3]
    page = (
        'a.textContent = "innerHTML"; // innerHTML\nb.innerHTML = c;\nd.insertAdjacentHTML("x", y);\ndocument.write(z);'
    )
    assert [str(problem) for problem in check.in_page_module("a.js", page)] == [
        f"a.js:{line}: {name} makes markup of text; set textContent, or let static/js/core/markup.js parse what our server rendered."
        for line, name in ((2, "innerHTML"), (3, "insertAdjacentHTML"), (4, "document.write"))
    ]


def test_compiled_templates_are_checked_too(check, tmp_path):
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "steps.jinja").write_text("{{ a }}{{ b|safe }}")
    (finding,) = check.findings(tmp_path)
    assert (finding.path, finding.name) == ("templates/steps.jinja", "safe")


def test_the_check_would_have_found_the_old_field_template(check, tmp_path):
    template = tmp_path / "templates" / "django" / "forms" / "field.html"
    template.parent.mkdir(parents=True)
    template.write_text("<p>\n{{ field.help_text|safe }}</p>")
    (finding,) = check.findings(tmp_path)
    assert (finding.path, finding.line, finding.name) == ("templates/django/forms/field.html", 2, "safe")
