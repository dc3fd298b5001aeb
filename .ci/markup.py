"""Finds places where text could become markup outside the modules that are allowed to do so.

.venv/bin/python .ci/markup.py

Python uses apps/common/markup.py, page modules use static/js/core/markup.js; templates escape.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PYTHON_MODULE = "apps/common/markup.py"
PAGE_MODULE = "static/js/core/markup.js"

PYTHON_NAMES = {
    "mark_safe",
    "markupsafe",
    "SafeString",
    "SafeText",
    "SafeData",
    "format_html",
    "format_html_join",
    "html_safe",
    "__html__",
    "is_safe",
}
PYTHON_MENTION = re.compile("|".join([*PYTHON_NAMES, r"\bMarkup\b"]))
PYTHON_ADVICE = f"build it with element(), joined() or sanitized() of {PYTHON_MODULE}"
TEMPLATE = re.compile(r"\|\s*safe(?:seq)?\b|{%-?\s*(?:end)?autoescape\b")
TEMPLATE_ADVICE = f"let the template escape it; what is markup comes from {PYTHON_MODULE} and says so itself"
PAGE = re.compile(
    r"\b(?:innerHTML|outerHTML|insertAdjacentHTML|setHTMLUnsafe|createContextualFragment|DOMParser|srcdoc|eval)\b"
    r"|document\s*\.\s*write\w*|\bnew\s+Function\b|\bhtmx\s*\.\s*swap\b"
)
PAGE_ADVICE = f"set textContent, or let {PAGE_MODULE} parse what our server rendered"
PAGE_NOT_CODE = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)


class Finding(NamedTuple):
    """A place where text becomes markup."""

    path: str
    line: int
    name: str
    advice: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name} makes markup of text; {self.advice}."


def in_python(path: str, source: str) -> Iterator[Finding]:
    """Every name that marks text as safe, wherever it's imported, called, or defined, and every call of `Markup`."""
    if not PYTHON_MENTION.search(source):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string in PYTHON_NAMES:
            yield Finding(path, token.start[0], token.string, PYTHON_ADVICE)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Markup":
            yield Finding(path, node.lineno, "Markup()", PYTHON_ADVICE)


def in_template(path: str, source: str) -> Iterator[Finding]:
    """Every filter and tag that turns off escaping."""
    for match in TEMPLATE.finditer(source):
        yield Finding(path, _line(source, match.start()), match[0].strip("|{% -"), TEMPLATE_ADVICE)


def in_page_module(path: str, source: str) -> Iterator[Finding]:
    """Every use of a markup parser, outside comments and strings."""
    code = PAGE_NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)
    for match in PAGE.finditer(code):
        yield Finding(path, _line(source, match.start()), re.sub(r"\s+", " ", match[0]), PAGE_ADVICE)


def findings(root: Path = ROOT) -> list[Finding]:
    """All findings in served folders and server code."""
    found: list[Finding] = []
    for folder, suffix, check, exempt in (
        ("apps", "*.py", in_python, PYTHON_MODULE),
        ("workers", "*.py", in_python, PYTHON_MODULE),
        ("templates", "*.html", in_template, ""),
        ("templates", "*.jinja", in_template, ""),
        ("apps", "*.html", in_template, ""),
        ("static/js", "*.js", in_page_module, PAGE_MODULE),
    ):
        for path in sorted((root / folder).rglob(suffix)):
            name = path.relative_to(root).as_posix()
            if name != exempt:
                found += check(name, path.read_text())
    return found


def _line(source: str, position: int) -> int:
    return source.count("\n", 0, position) + 1


if __name__ == "__main__":
    problems = findings()
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
