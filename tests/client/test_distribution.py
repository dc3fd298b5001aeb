"""The distribution as installed by `pip install ./client`, without the rest of Retrace."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CLIENT = Path(__file__).resolve().parents[2] / "client"


OPTIONAL = ['datasets>=3; extra == "datasets"', 'huggingface_hub>=1; extra == "hub"']


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("client")
    source = shutil.copytree(
        CLIENT, folder / "source", ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    )
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert built.returncode == 0, built.stdout + built.stderr
    [wheel] = folder.glob("*.whl")
    return wheel


def test_it_needs_httpx_and_pydantic_and_says_that_it_is_typed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata] = [archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")]
        [commands] = [archive.read(name).decode() for name in names if name.endswith("entry_points.txt")]
    needed = [line.split(": ")[1] for line in metadata.splitlines() if line.startswith("Requires-Dist")]
    assert needed == ["httpx<1,>=0.27", "pydantic<3,>=2.7", *OPTIONAL]
    assert "retrace = retrace.cli.main:entry_point" in commands
    assert "retrace/py.typed" in names
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"retrace"}


def test_the_installed_command_runs(wheel: Path, tmp_path: Path) -> None:
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(tmp_path / "site")]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True, timeout=100)
    environment = {"PYTHONPATH": str(tmp_path / "site"), "PATH": ""}
    command = [str(tmp_path / "site" / "bin" / "retrace"), "--version"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "retrace-client 0.1.0\n"), done.stderr
