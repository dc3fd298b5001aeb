"""Behaviors common to all pages, tested on the gallery."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def until(page, condition):
    """Wait for something only scripts can see. Playwright's own wait_for_function needs eval, which our policy forbids."""
    page.evaluate(f"""() => new Promise((resolve) => {{
        const look = () => (({condition}) ? resolve() : setTimeout(look, 50));
        look();
    }})""")


@pytest.fixture
def gallery(page):
    page.goto("/gallery/")
    return page


def test_the_theme_is_set_before_the_first_paint_and_remembered(open_as):
    page = open_as(None, color_scheme="light")
    page.goto("/gallery/")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    page.keyboard.press("T")
    assert page.evaluate(ground) == "rgb(20, 21, 24)"
    # The classic script in the head has run by the time the body begins to exist.
    page.add_init_script("""
        new MutationObserver((_, observer) => {
            if (!document.body) return;
            window.themeAtFirstBody = document.documentElement.dataset.theme;
            observer.disconnect();
        }).observe(document, { childList: true, subtree: true });
    """)
    page.reload()
    assert page.evaluate("window.themeAtFirstBody") == "dark"
    assert page.evaluate(ground) == "rgb(20, 21, 24)"


def test_the_help_lists_the_keys_of_the_page_and_changes_one(gallery):
    gallery.keyboard.press("?")
    dialog = gallery.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog.get_by_text("Open a dialog")).to_be_visible()
    dialog.get_by_role("listitem").filter(has_text="Open a dialog").get_by_role("button").click()
    gallery.keyboard.press("f")
    expect(dialog.get_by_text("f is taken by “Freeze version 4”. Change that first.")).to_be_visible()
    dialog.get_by_role("listitem").filter(has_text="Open a dialog").get_by_role("button").click()
    gallery.keyboard.press("o")
    gallery.keyboard.press("Escape")
    expect(gallery.get_by_role("button", name="Open a dialog").locator("kbd")).to_have_text("o")
    gallery.keyboard.press("d")
    expect(gallery.get_by_role("dialog")).to_have_count(0)
    gallery.keyboard.press("o")
    expect(gallery.get_by_role("dialog", name="Invite somebody")).to_be_visible()


def test_caps_lock_does_not_turn_a_key_into_its_capital(gallery):
    theme = "document.documentElement.dataset.theme"
    before = gallery.evaluate(theme)
    press = """(shiftKey) => document.body.dispatchEvent(
        new KeyboardEvent("keydown", { key: shiftKey ? "t" : "T", shiftKey, modifierCapsLock: true, bubbles: true }))"""
    gallery.evaluate(press, False)
    assert gallery.evaluate(theme) == before
    gallery.evaluate(press, True)
    assert gallery.evaluate(theme) != before


def test_keys_sleep_while_one_types_and_behind_a_dialog(gallery):
    gallery.keyboard.press("/")
    search = gallery.get_by_label("Search")
    expect(search).to_be_focused()
    gallery.keyboard.type("d?")
    expect(search).to_have_value("d?")
    expect(gallery.get_by_role("dialog")).to_have_count(0)
    search.blur()
    gallery.keyboard.press("d")
    dialog = gallery.get_by_role("dialog", name="Invite somebody")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Close").focus()
    gallery.keyboard.press("?")
    expect(gallery.get_by_role("dialog", name="Keyboard shortcuts")).to_have_count(0)


def test_rows_are_walked_and_picked_by_keyboard(gallery):
    for key in ("j", "j", "x", "j", "x"):
        gallery.keyboard.press(key)
    expect(gallery.get_by_role("link", name="order-002")).to_be_focused()
    expect(gallery.locator("[data-bulk]")).to_be_visible()
    expect(gallery.locator("[data-picked]")).to_have_text("2")
    gallery.keyboard.press("Escape")
    expect(gallery.locator("[data-bulk]")).to_be_hidden()


def test_shift_picks_a_range_and_the_head_picks_all(gallery):
    boxes = gallery.locator("input[data-pick]")
    boxes.nth(1).click()
    boxes.nth(4).click(modifiers=["Shift"])
    expect(gallery.locator("[data-picked]")).to_have_text("4")
    all_of_them = gallery.get_by_label("Pick all")
    assert all_of_them.evaluate("box => box.indeterminate")
    all_of_them.click()
    expect(gallery.locator("[data-picked]")).to_have_text("8")


def test_a_question_is_asked_before_something_final(gallery):
    gallery.evaluate("""document.addEventListener("submit", (event) => {
        if (!event.target.matches("[data-confirm]")) return;
        event.preventDefault();
        window.sent = (window.sent ?? 0) + 1;
    })""")
    gallery.keyboard.press("f")
    question = gallery.get_by_role("dialog")
    expect(question).to_contain_text("it never changes again")
    question.get_by_role("button", name="Cancel").click()
    assert gallery.evaluate("window.sent") is None
    gallery.keyboard.press("f")
    question.get_by_role("button", name="Freeze version 4").click()
    until(gallery, "window.sent === 1")


def test_what_was_typed_survives_a_closed_tab(gallery):
    gallery.get_by_label("Name").fill("dpo-4")
    gallery.get_by_label("Resume").uncheck()
    gallery.reload()  # immediately, before the delay after which drafts are saved
    expect(gallery.get_by_label("Name")).to_have_value("dpo-4")
    expect(gallery.get_by_label("Resume")).not_to_be_checked()


def test_a_chart_reads_its_values_out_and_turns_into_its_table(gallery):
    chart = gallery.locator("figure", has_text="Loss").first
    expect(chart.locator("canvas")).to_be_visible()
    expect(chart.locator(".chart-legend li[class]")).to_have_count(3)  # two curves and the cursor
    expect(chart.locator(".chart-legend .where")).to_have_text("Step 300")
    chart.get_by_role("img").focus()
    gallery.keyboard.press("Home")
    expect(chart.locator(".chart-legend .where")).to_have_text("Step 0")
    expect(chart.locator(".chart-legend .value").first).to_contain_text("0.79")  # 0.69 + 0.1 at step 0
    chart.get_by_role("button", name="Table").click()
    expect(chart.get_by_role("cell", name="0.7900")).to_be_visible()
    expect(chart.locator("canvas")).to_be_hidden()


@pytest.mark.parametrize("shape", ["", "wide", "desk"])
def test_no_shape_of_page_is_wider_than_the_window(open_as, shape):
    page = open_as(None)
    for width in (390, 1024, 1440):
        page.set_viewport_size({"width": width, "height": 844})
        page.goto(f"/gallery/?shape={shape}")
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_on_a_phone_the_navigation_is_a_drawer(open_as):
    page = open_as(None, viewport={"width": 390, "height": 844})
    page.goto("/gallery/")
    settings = page.locator("#nav").get_by_role("link", name="Settings")
    expect(settings).to_be_hidden()
    page.get_by_role("button", name="Menu").first.click()
    expect(settings).to_be_visible()
    page.keyboard.press("Escape")
    expect(settings).to_be_hidden()


def test_partials_take_their_places_and_the_reader_stays_where_they_were(gallery):
    gallery.evaluate("""() => {
        const html = '<section id="live-test"><input id="live-input" value="abcdef">'
            + '<details id="live-fold"><summary>more</summary>text</details>'
            + '<pre id="live-log" class="code log" data-keep-scroll="end">' + 'line\\n'.repeat(100) + '</pre></section>';
        document.getElementById('content').insertAdjacentHTML('beforeend', html);
        const log = document.getElementById('live-log');
        log.scrollTop = log.scrollHeight;
        document.getElementById('live-fold').open = true;
        const input = document.getElementById('live-input');
        input.focus();
        input.setSelectionRange(2, 4);
    }""")
    module = gallery.locator("script[type=module]").first.get_attribute("src").replace("app.js", "live.js")
    gallery.evaluate(
        """async (module) => {
            const { swapPartials } = await import(module);
            swapPartials('<section id="live-test"><input id="live-input" value="abcdef"><p>fresh</p>'
                + '<details id="live-fold"><summary>more</summary>text</details>'
                + '<pre id="live-log" class="code log" data-keep-scroll="end">' + 'line\\n'.repeat(200) + '</pre></section>'
                + '<p id="nowhere-on-the-page">x</p>');
        }""",
        module,
    )
    expect(gallery.get_by_text("fresh")).to_be_visible()
    expect(gallery.locator("#nowhere-on-the-page")).to_have_count(0)
    expect(gallery.locator("#live-input")).to_be_focused()
    assert gallery.locator("#live-input").evaluate("input => [input.selectionStart, input.selectionEnd]") == [2, 4]
    assert gallery.locator("#live-fold").evaluate("fold => fold.open")
    assert gallery.locator("#live-log").evaluate("log => log.scrollHeight - log.scrollTop - log.clientHeight") < 8


@pytest.mark.parametrize("status", [204, 500])
def test_a_swap_does_not_restore_the_focus_from_before_a_response_that_was_not_swapped(gallery, console, status):
    console.expect("500|htmx:responseError|Response Status Error")
    gallery.route("**/test/first/", lambda route: route.fulfill(status=status))
    gallery.route("**/test/second/", lambda route: route.fulfill(body="swapped", content_type="text/html"))
    gallery.evaluate("""() => document.getElementById("content").insertAdjacentHTML(
        "beforeend", '<input id="one"><input id="two"><p id="swapped-here"></p>')""")
    request = "path => htmx.ajax('GET', path, { target: '#swapped-here' }).catch(() => {})"
    gallery.locator("#one").focus()
    gallery.evaluate(request, "/test/first/")
    gallery.locator("#two").focus()
    gallery.evaluate(request, "/test/second/")
    expect(gallery.locator("#swapped-here")).to_have_text("swapped")
    expect(gallery.locator("#two")).to_be_focused()
