"""Finds a Chromium for the tests. When run as a program, installs the headless one or, if that fails, any other."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

SHELL = "chromium-headless-shell"
"""Headless Chromium, which takes less CPU time: the name of Debian's package and of its command."""
NAMES = (SHELL, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


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
    """Install a Chromium: as root, the distribution's; if that isn't available, Playwright's. Returns its path, or exits with a message."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        quiet = {"env": environment, "stdout": subprocess.DEVNULL, "check": False}
        subprocess.run(["apt-get", "update", "-qq"], **quiet)
        for package in (SHELL, "chromium"):
            print(f"Installing {package} with apt-get …", flush=True)
            subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", package], **quiet)
            if find():
                break
    if not find():
        print("Installing Playwright's chromium …", flush=True)
        subprocess.run([sys.executable, "-m", "playwright", "install", "--with-deps", "chromium"], check=False)
    return find() or sys.exit(
        "No Chromium could be installed for the browser tests. Install chromium or google-chrome yourself, "
        "or name one: CHROMIUM=/path/to/chromium make test"
    )


if __name__ == "__main__":
    print(find() if os.environ.get("CHROMIUM") or shutil.which(SHELL) else install())
