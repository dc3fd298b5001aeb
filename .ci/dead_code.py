"""Finds unused code: not referenced by our code or templates, nor listed in `used_by_name.txt` as called by name by frameworks or people.

Tests don't count: code that only they use is dead.
"""

import ast
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from vulture import Vulture

ROOT = Path(__file__).resolve().parent.parent
PATHS = ["apps", "contract", "trainer", "workers", "manage.py"]
TAGS = re.compile(r"{{.*?}}|{%.*?%}", re.DOTALL)
WORD = re.compile(r"[A-Za-z_]\w*")
FACTS = ("variable", "attribute", "property")


def names_in_templates() -> set[str]:
    """All words within template tags."""
    paths = (path for path in (ROOT / "templates").rglob("*") if path.suffix in {".html", ".jinja"})
    texts = (path.read_text(encoding="utf-8") for path in paths)
    return {word for text in texts for tag in TAGS.findall(text) for word in WORD.findall(tag)}


def names_in_text() -> tuple[set[str], set[str]]:
    """Names in our Python strings: the last parts of dotted paths, such as "apps.common.csp.Middleware"; and field names in strings or keywords."""
    paths, fields = set(), set()
    for path in python_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg:
                fields.update(node.arg.split("__"))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                *folders, name = node.value.split(".")
                (paths if folders else fields).update(name.lstrip("-").split("__"))
    return paths, fields


def python_files() -> Iterator[Path]:
    for name in PATHS:
        yield from (ROOT / name).rglob("*.py") if (ROOT / name).is_dir() else [ROOT / name]


def called_by_name() -> list[tuple[str, str]]:
    """(path pattern, name pattern) pairs."""
    lines = (line.split("#")[0].split() for line in (ROOT / ".ci" / "used_by_name.txt").read_text().splitlines())
    return [(path, name) for path, *names in filter(None, lines) for name in names]


def main() -> int:
    finder = Vulture(ignore_decorators=["@register.*", "@app.task*", "@*.connect*", "@receiver*"])
    finder.scavenge([str(ROOT / path) for path in PATHS], exclude=["*/migrations/*"])
    paths, fields = names_in_text()
    # As Vulture's `ignore_names` these thousands would each be matched as a pattern with every definition.
    paths |= names_in_templates()
    called = called_by_name()
    dead = 0
    for item in finder.get_unused_code(min_confidence=60):
        path = str(Path(item.filename).relative_to(ROOT))
        is_named = item.name in paths or (item.typ in FACTS and item.name in fields)
        if is_named or any(fnmatch(path, place) and fnmatch(item.name, name) for place, name in called):
            continue
        print(f"{path}:{item.first_lineno}: nothing uses the {item.typ} {item.name}")
        dead += 1
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
