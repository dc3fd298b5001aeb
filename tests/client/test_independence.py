"""The client installs with httpx and pydantic, and imports nothing else."""

import ast
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "client" / "src" / "retrace"
MANIFEST = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())["project"]


def imported(file: Path) -> set[str]:
    tree = ast.walk(ast.parse(file.read_text()))
    names = set()
    for node in tree:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            names.add(str(node.module))
    return {name.split(".")[0] for name in names}


def test_nothing_is_imported_that_is_not_installed_with_it() -> None:
    names = set().union(*(imported(file) for file in SOURCE.rglob("*.py")))
    assert names - sys.stdlib_module_names == {"retrace", "httpx", "pydantic", "datasets", "huggingface_hub"}


def test_what_is_optional_is_imported_only_by_whoever_asks_for_it() -> None:
    optional = MANIFEST["optional-dependencies"]
    assert optional == {"datasets": ["datasets>=3"], "hub": ["huggingface_hub>=1"]}
    for file in SOURCE.rglob("*.py"):
        top_level = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        assert not {"datasets", "huggingface_hub"} & {ast.unparse(node).split()[1] for node in top_level}, file


def test_the_manifest_names_what_is_imported() -> None:
    assert [line.split(">")[0] for line in MANIFEST["dependencies"]] == ["httpx", "pydantic"]
