"""What production serves: files named by their content, whose references are to files so named."""

import re
from pathlib import Path

import pytest
from django.core.files.storage import storages
from django.core.management import call_command


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    from django.test import override_settings

    root = tmp_path_factory.mktemp("static")
    backends = {"staticfiles": {"BACKEND": "apps.common.static_files.ModuleStorage"}}
    with override_settings(STATIC_ROOT=root, STORAGES={**storages.backends, **backends}):
        call_command("collectstatic", interactive=False, verbosity=0)
    return root


def ours(root: Path, pattern: str):
    """The hashed files of our own modules or styles."""
    return [path for path in root.glob(pattern) if re.search(r"\.[0-9a-f]{12}\.\w+$", path.name)]


def test_modules_import_each_other_by_their_hashed_names(collected):
    imports = [
        (module, target)
        for module in ours(collected, "js/*.js")
        for target in re.findall(r"""(?:from|import)\s*["'](\.[^"']+)["']""", module.read_text())
    ]
    assert len(imports) > 20
    for module, target in imports:
        assert re.search(r"\.[0-9a-f]{12}\.js$", target), f"{module.name} imports {target}"
        assert (module.parent / target).exists(), f"{module.name} imports {target}"


def test_styles_refer_to_nothing_outside(collected):
    styles = ours(collected, "css/*.css")
    assert styles
    for style in styles:
        assert not re.search(r"@import|url\(\s*[\"']?(?:https?:)?//", style.read_text()), style.name
