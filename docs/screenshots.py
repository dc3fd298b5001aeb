"""Takes the pictures of the documentation from the demo workspace: `make screenshots` while `make run` is running.

RETRACE_URL names the address when it is not the usual one.
"""

import os
import sys
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

from apps.demo.sign_ins import PASSWORD, RESEARCHER
from tests.browser import chromium

PICTURES = Path(__file__).parent / "pictures"
ADDRESS = os.environ.get("RETRACE_URL", "http://127.0.0.1:8000")
WIDTH = 1280


class Picture(NamedTuple):
    """A page to take: where to begin, which links to follow from there, which keys to press then."""

    name: str
    path: str
    links: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    height: int = 800


WANTED = (
    Picture("home", "/"),
    Picture("replay", "/trajectories/?outcome=success", ("tbody a.row-link",), ("j", "j")),
    Picture("queue", "/queues/", ("a.row-link:text-is('Office trajectories')",)),
    Picture("desk", "/queues/", ("a.row-link:has-text('Blind comparison')", "a[href^='/desk/']"), ("Escape", "2")),
    Picture("version", "/datasets/", ("a.row-link:has-text('Office preferences')", "main a[href$='/v/1/']")),
    Picture(
        "run", "/runs/", ("a.row-link:text-is('office-sft')",), height=620
    ),  # below that it names folders of the machine
    Picture("experiment", "/experiments/", ("a.row-link:has-text('Did DPO help?')",)),
)


def main() -> None:
    """Take every picture, or those whose names are given."""
    names = set(sys.argv[1:])
    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=flags)
        for picture in WANTED:
            if not names or picture.name in names:
                take(browser, picture)
                print(PICTURES / f"{picture.name}.png")
        browser.close()


def take(browser: Browser, picture: Picture) -> None:
    """One picture, in a window of its own."""
    page = browser.new_page(
        base_url=ADDRESS,
        viewport={"width": WIDTH, "height": picture.height},
        reduced_motion="reduce",
    )  # type: ignore[arg-type]  # the literal types of Playwright
    sign_in(page)
    page.goto(picture.path)
    for link in picture.links:
        page.locator(link).first.click()
        page.wait_for_load_state("networkidle")
    for key in picture.keys:
        page.keyboard.press(key)
    page.wait_for_timeout(800)  # charts draw, and what was asked for late arrives
    page.screenshot(path=PICTURES / f"{picture.name}.png")
    page.close()


def sign_in(page: Page) -> None:
    """As the demo's researcher."""
    page.goto("/sign-in/")
    page.fill("form.form input[name=email]", RESEARCHER.email)
    page.fill("form.form input[name=password]", PASSWORD)
    page.locator("form.form button.primary").click()
    page.wait_for_url(f"{ADDRESS}/")


if __name__ == "__main__":
    main()
