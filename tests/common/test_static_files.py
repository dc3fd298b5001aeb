"""Static file responses, and the files served in production: named by content hash, and referring to each other by these names."""

import re
from hashlib import sha256
from pathlib import Path

import pytest
from django.contrib.staticfiles.finders import get_finder
from django.core.files.storage import storages
from django.core.management import call_command

from apps.common.static_files import ModuleStorage, StaticFiles


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    from django.test import override_settings

    root = tmp_path_factory.mktemp("static")
    backends = {"staticfiles": {"BACKEND": "apps.common.static_files.ModuleStorage"}}
    with (
        override_settings(STATIC_ROOT=root, STORAGES={**storages.backends, **backends}),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(
            ModuleStorage, "compress_files", lambda *_: iter(())
        )  # takes longest, and doesn't matter to these tests
        call_command("collectstatic", interactive=False, verbosity=0)
    return root


def ours(root: Path, pattern: str):
    """The hashed files of our own modules or styles."""
    return [path for path in root.glob(pattern) if re.search(r"\.[0-9a-f]{12}\.\w+$", path.name)]


def test_modules_import_each_other_by_their_hashed_names(collected):
    imports = [
        (module, target)
        for module in ours(collected, "js/**/*.js")
        for target in re.findall(r"""(?:from|import)\s*["'](\.[^"']+)["']""", module.read_text())
    ]
    assert len(imports) > 20
    for module, target in imports:
        assert re.search(r"\.[0-9a-f]{12}\.js$", target), f"{module.name} imports {target}"
        assert (module.parent / target).exists(), f"{module.name} imports {target}"


def test_what_is_vendored_is_what_was_published(settings):
    """Hash of uPlot 1.6.32 on npm. For another version, update this and docs/decisions/dependencies.md."""
    file = settings.BASE_DIR / "static/vendor/uplot/uPlot.esm.js"
    assert sha256(file.read_bytes()).hexdigest() == "5dd9b3281aa64b461b42d9945f6adb2649d346502b12281a9ae0d46599a80eba"
    assert "(v1.6.32)" in file.read_text()[:400]
    assert "MIT License" in file.with_name("LICENSE").read_text()


def test_styles_refer_to_nothing_outside(collected):
    styles = ours(collected, "css/*.css")
    assert styles
    for style in styles:
        assert not re.search(r"@import|url\(\s*[\"']?(?:https?:)?//", style.read_text()), style.name


async def get_file(
    path: str, *headers: tuple[bytes, bytes], root: str = "", of: StaticFiles | None = None
) -> tuple[int, dict[bytes, bytes], bytes]:
    """The response to GET: status, headers, and body. The wrapped application responds with 299."""
    answered: list[dict] = []

    async def receive() -> dict:
        return {"type": "http.request"}

    async def send(message: dict) -> None:
        answered.append(message)

    async def behind(scope: dict, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 299, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    scope = {"type": "http", "method": "GET", "path": path, "root_path": root, "query_string": b"", "headers": headers}
    await (of or StaticFiles(behind))(scope, receive, send)
    start, body = answered
    return start["status"], dict(start["headers"]), body["body"]


@pytest.mark.parametrize(("path", "root"), [("/static/js/core/app.js", ""), ("/at/static/js/core/app.js", "/at")])
async def test_a_static_file_is_answered_before_the_application(path, root, settings):
    status, headers, body = await get_file(path, root=root)
    assert (status, body) == (200, (settings.BASE_DIR / "static/js/core/app.js").read_bytes())
    assert headers[b"content-type"].startswith(b"text/javascript")
    assert headers[b"x-content-type-options"] == b"nosniff"


async def test_a_browser_that_has_the_file_is_told_so():
    _, headers, _ = await get_file("/static/js/core/app.js")
    status, _, body = await get_file("/static/js/core/app.js", (b"if-modified-since", headers[b"last-modified"]))
    assert (status, body) == (304, b"")


async def test_a_file_that_changes_while_one_develops_is_answered_whole(settings, tmp_path):
    settings.STATICFILES_DIRS = [tmp_path]
    get_finder.cache_clear()
    style = tmp_path / "style.css"
    style.write_text("a {}")
    files = StaticFiles(None)
    for text in ("a {}", "a { color: green }"):
        style.write_text(text)
        status, headers, body = await get_file("/static/style.css", of=files)
        assert (status, headers[b"content-length"], body) == (200, str(len(text)).encode(), text.encode())
    get_finder.cache_clear()


async def test_no_other_file_is_handed_out():
    assert (await get_file("/static/nothing.js"))[0] == 404
    assert (await get_file("/static/../manage.py"))[0] == 404


async def test_everything_else_goes_on_to_the_application():
    assert (await get_file("/desk/"))[0] == 299
