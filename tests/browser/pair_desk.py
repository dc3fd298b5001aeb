"""The desk comparing pairs, in a real browser: keys to press, and waits for what they lead to."""

from playwright.sync_api import Page, Route, expect

from apps.annotation.models import Preference


def ready(page: Page) -> Page:
    """Wait until a pair is shown and the next one is preloaded."""
    expect(page.locator("[data-pair][data-drafting]")).to_be_visible()
    return page


def shown(page: Page) -> str:
    return page.locator("[data-pair]").get_attribute("data-pair") or ""


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def after(page: Page, pair: str) -> None:
    """Wait until a pair other than `pair` is shown."""
    page.wait_for_function(
        "old => ![null, undefined, old].includes(document.querySelector('[data-pair]')?.dataset.pair)", arg=pair
    )
    ready(page)


def answer(page: Page, *keys: str) -> str:
    """Press keys and Enter, and wait for the next pair. Returns the judged pair."""
    pair = shown(page)
    press(page, *keys, "Enter")
    after(page, pair)
    return pair


def stored_judgments() -> list[tuple[int, bool]]:
    """(strength in favor of the left run, both bad), in the order of judging."""
    preferences = Preference.objects.valid().order_by("pk")
    return [(p.strength if p.a_was_left else -p.strength, p.both_bad) for p in preferences]


def hold_next(page: Page, *, answers_later: bool = True) -> Route:
    """Reload the desk and hold its preload request. Later requests pass, or are never answered."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        if not held:
            held.append(route)
        elif answers_later:
            route.continue_()

    page.route("**/desk/*/next/", hold)
    page.reload()
    ready(page)
    while not held:
        page.wait_for_timeout(50)
    return held[0]


def all_sent(page: Page) -> None:
    """Wait until the server has all answers, and the desk what came with its responses."""
    page.wait_for_function("() => !Object.keys(localStorage).some(key => key.includes('outbox:'))")


def expect_ahead(page: Page) -> None:
    """Wait until the pair after the shown one has been preloaded."""
    page.wait_for_function("() => performance.getEntriesByType('resource').some(e => /desk.[^/]+.next.$/.test(e.name))")
    page.wait_for_timeout(200)
