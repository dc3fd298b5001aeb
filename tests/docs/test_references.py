"""The documentation only refers to existing files, pages, and headings."""

import re
import unicodedata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "client" / "README.md", *(ROOT / "docs").rglob("*.md")])
PACKAGES = (
    "apps",
    "bench",
    "client",
    "contract",
    "docs",
    "examples",
    "templates",
    "static",
    "tests",
    "trainer",
    "workers",
    ".ci",
)
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as links use them."""
    headings = re.findall(r"^#+ (.+)$", CODE_BLOCK.sub("", page.read_text()), re.MULTILINE)
    plain = (unicodedata.normalize("NFC", re.sub(r"[`*_]|\[|\]\(.*?\)", "", heading)).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.fixture(scope="module")
def files() -> list[str]:
    return ["/" + named(path) for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_module_named_is_there(page: Path, files: list[str]):
    modules = set(re.findall(r"`((?:[\w-]+/)*[\w-]+\.(?:py|html|js|css))`", page.read_text()))
    assert {module for module in modules if not any(file.endswith(f"/{module}") for file in files)} == set()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=named)
def test_no_page_has_the_marks_of_an_unfinished_merge(page: Path):
    assert re.findall(r"^(?:<{7}|={7}|>{7})(?: .*)?$", page.read_text(), re.MULTILINE) == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path):
    for target in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", CODE_BLOCK.sub("", page.read_text())):
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        if anchor:
            assert anchor in anchors(linked), target
