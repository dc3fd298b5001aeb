"""The check of the line lengths of templates."""

import importlib.util
from pathlib import Path

import pytest

LONG = "x" * 130


@pytest.fixture(scope="module")
def check():
    path = Path(__file__).resolve().parents[2] / ".ci" / "template_lines.py"
    spec = importlib.util.spec_from_file_location("ci_template_lines", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "line",
    [
        f"<p>two {LONG}</p>",
        f"<p>{LONG} two</p>",
        f'<a class="button" href="{LONG}">',
        f'{{% include "{LONG} words" %}} {{% csrf_token %}}',
        f"<pre>two words</pre> {LONG}",
        f"{{% comment %}}two {LONG}{{% endcomment %}}",
    ],
)
def test_a_long_line_that_could_be_broken_is_found(check, line):
    (finding,) = check.long_lines("page.html", f"<p>\n  {line}\n</p>")
    assert (finding.line, finding.columns) == (2, len(line) + 2)


@pytest.mark.parametrize(
    "source",
    [
        f'{{% include "components/_empty.html" with text="two words {LONG}" %}}',
        f"<p>{{{{ run.name|default:'two words {LONG}' }}}}</p>",
        f'<a\n  data-confirm="two words > {LONG}">',
        f"<a\n  title='It says \"two words\" {LONG}'>",
        "<p>" + "two words".ljust(110) + "</p>",
        f"<pre>\n$ two words {LONG}\n</pre>",
        f"<textarea>two words {LONG}</textarea>",
    ],
)
def test_what_must_stay_whole_and_what_is_short_enough_is_left_alone(check, source):
    assert list(check.long_lines("page.html", source)) == []
