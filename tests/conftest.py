"""Real services for every test: a PostgreSQL and a Valkey for this test session, in a separate folder.

The environment is set here, before Django reads its settings. Under xdist, the controller starts the services and
the workers share them; each has its own database (pytest-django adds the suffix), Valkey number, and folder.
"""

import gc
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import django
import pytest
import redis
from django.db import connections
from django.test import Client
from hypothesis import HealthCheck, settings

from apps.common.stack import paths
from apps.common.stack.services import EmbeddedServices
from tests import alone, flush, migrated_cluster
from tests.white_space import with_collapsed_pages

ROOT = Path(__file__).resolve().parent.parent
XDIST_WORKER = os.environ.get("PYTEST_XDIST_WORKER")  # "gw0", "gw1", …; unset in the controller
pytest_plugins = ["tests.addresses", "tests.live", "tests.browser.pages"]

if XDIST_WORKER is None:
    os.environ["RETRACE_VAR"] = tempfile.mkdtemp(prefix="retrace-tests-")
STACK = paths.for_base(ROOT)
if XDIST_WORKER:
    STACK = replace(STACK, var=STACK.var / XDIST_WORKER)  # the sockets are the controller's
    STACK.logs.mkdir(parents=True, exist_ok=True)
os.environ |= {
    "RETRACE_VAR": str(STACK.var),
    "DJANGO_SETTINGS_MODULE": "apps.settings",
    "RETRACE_ENV": "test",
    "DATABASE_URL": STACK.database_url,
    "VALKEY_URL": STACK.valkey_url.replace("db=0", f"db={int(XDIST_WORKER[2:]) + 1 if XDIST_WORKER else 0}"),
    "TOKENIZERS_PARALLELISM": "false",
}
UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a slow machine must not fail a test
settings.register_profile("same", UNHURRIED, derandomize=True, max_examples=50)  # the same examples everywhere
settings.register_profile(
    "explore", UNHURRIED, max_examples=10_000
)  # pytest --hypothesis-profile=explore: new examples
settings.load_profile("same")
gc.disable()  # until the tests are collected: imported objects stay, and scanning them would take a third of that time
django.setup()  # before test modules import models; pytest-django would do it too late, since the settings are set here
connections.settings["default"]["TEST"]["TEMPLATE"] = migrated_cluster.TEMPLATE
flush.install()
_services = pytest.StashKey[EmbeddedServices]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--alone", action="store_true", help="collect only files that may have tests that run by themselves"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_file = config.option.alone and collection_path.suffix == ".py"
    return True if is_file and not alone.may_have(collection_path) else None


def pytest_sessionstart(session: pytest.Session) -> None:
    if XDIST_WORKER is None and not session.config.option.collectonly:
        session.config.stash[_services] = migrated_cluster.start(STACK)
        if session.config.getoption(
            "numprocesses", None
        ):  # otherwise pytest-django would read the settings before the lines above
            del os.environ["DJANGO_SETTINGS_MODULE"]


def pytest_unconfigure(config: pytest.Config) -> None:
    if XDIST_WORKER is None:
        if services := config.stash.get(_services, None):
            services.__exit__(None, None, None)
        shutil.rmtree(STACK.var, ignore_errors=True)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


LONGEST = {"stack/test_run.py", "browser/test_loop.py", "workers/test_live_runs.py"}


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Mark the tests of the running product, and put the longest files first, so that no worker ends up running one alone.

    The others stay in their order. pytest-django would put those that don't run in a transaction last, but `tests.flush` leaves the database as it was.
    Many of them wait for something, so at the end the processors would be idle.
    """
    for item in items:
        if "live_programs" in getattr(item, "fixturenames", ()):
            item.add_marker("stack")
        alone.check(item)
    collected = {item: number for number, item in enumerate(items)}
    yield
    items.sort(key=lambda item: ("/".join(item.path.parts[-2:]) not in LONGEST, collected[item]))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name packed bytes by their argument: compressing may include the time of day, and all workers must collect tests with the same names."""
    return argname if isinstance(val, bytes) and not val.isascii() else None


@pytest.fixture(scope="session")
def stack_paths() -> paths.StackPaths:
    """Paths of the services that this session uses."""
    return STACK


@pytest.fixture(scope="session")
def valkey() -> Iterator[redis.Redis]:
    """A client for this worker's Valkey number."""
    with redis.Redis.from_url(os.environ["VALKEY_URL"]) as client:
        yield client


@pytest.fixture(autouse=True)
def clean_valkey(valkey: redis.Redis) -> None:
    """Start without the cache entries, rate limits, and queued tasks of earlier tests.

    Celery's bindings are kept: a live worker of this session creates them when it starts, and only then.
    """
    for key in valkey.scan_iter(count=1000):
        if b"_kombu.binding" not in key:
            valkey.delete(key)


@pytest.fixture(autouse=True)
def files_of_this_test(tmp_path: Path, settings: object, request: pytest.FixtureRequest) -> None:
    """Give each test a folder for stored files, except where other processes must find them, too."""
    if "live_stack" in request.fixturenames:
        return
    location = str(tmp_path / "files")
    default = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": location}}
    settings.STORAGES = {**settings.STORAGES, "default": default}  # type: ignore[attr-defined]  # pytest-django's wrapper
    settings.RUNS_DIR = tmp_path / "runs"  # type: ignore[attr-defined]


@pytest.fixture(scope="module", autouse=True)
def nothing_old_is_collected() -> None:
    """Freeze the garbage collector's objects: each training run in these tests collects garbage, which would take a second with everything imported."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def pages_without_line_breaks() -> Iterator[None]:
    """Make test clients collapse white space in pages, so that line breaks in templates don't affect tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Client, "request", with_collapsed_pages(Client.request))
        yield


@pytest.fixture(scope="session")
def real_data() -> Callable[[str], Path]:
    """Returns the path of a file or folder with trajectories by others, which aren't part of the project; skips the test without them."""
    folder = Path(os.environ.get("RETRACE_DATA") or ROOT.parent / "shared" / "data")

    def find(path: str) -> Path:
        if not (folder / path).exists():
            pytest.skip(f"{folder / path} is not on this machine (RETRACE_DATA names the folder of real trajectories)")
        return folder / path

    return find


@pytest.fixture
def free_port() -> int:
    """A port on this machine that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
