"""Finds a Chromium for the tests; run as a program, installs one if there is none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """The path of a Chromium on this machine: $CHROMIUM, one of the usual names, or Playwright's own."""
    if named := os.environ.get("CHROMIUM"):
        return named
    for name in NAMES:
        if path := shutil.which(name):
            return path
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        playwright_path = playwright.chromium.executable_path
    return playwright_path if Path(playwright_path).exists() else None


def install() -> str:
    """Install a Chromium: the distribution's as root, Playwright's otherwise. Returns its path, or ends with a message."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("Installing chromium with apt-get …", flush=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        quiet = {"env": environment, "stdout": subprocess.DEVNULL, "check": False}
        subprocess.run(["apt-get", "update", "-qq"], **quiet)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"], **quiet)
    if not find():
        print("Installing Playwright's chromium …", flush=True)
        subprocess.run([sys.executable, "-m", "playwright", "install", "--with-deps", "chromium"], check=False)
    return find() or sys.exit(
        "No Chromium could be installed for the browser tests. Install chromium or google-chrome yourself, "
        "or name one: CHROMIUM=/path/to/chromium make test"
    )


if __name__ == "__main__":
    print(find() or install())
