"""static/js/live.js against a socket that opens, breaks, or never opens."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

PART = '<p id="part">{}</p>'
START = """() => {
    document.getElementById("content").insertAdjacentHTML("beforeend",
        '<span data-live-state></span><div id="run" data-live="/ws/test/" data-live-poll="/test/state/">'
        + '<p id="part">as the page was rendered</p><ul id="log"></ul></div>');
}"""


@pytest.fixture
def sockets(page):
    """The server's ends of the sockets that the page opened."""
    opened = []
    page.route_web_socket("**/ws/test/", lambda socket: opened.append(socket))
    return opened


@pytest.fixture
def gallery(page, sockets):
    page.goto("/gallery/")
    answer_state(page, "as the page was rendered")
    return page


def answer_state(page, words):
    """What the server says the state is now; returns the requests that asked."""
    asked = []

    def answer(route):
        asked.append(route.request)
        route.fulfill(status=200, content_type="text/html", body=PART.format(words))

    page.unroute("**/test/state/")
    page.route("**/test/state/", answer)
    return asked


def state(page):
    return page.locator("[data-live-state]").last


def test_partials_from_the_socket_take_their_places(gallery, sockets):
    gallery.evaluate(START)
    expect(state(gallery)).to_have_text("Live")
    sockets[0].send(PART.format("step 12"))
    expect(gallery.locator("#part")).to_have_text("step 12")
    sockets[0].send('<ul hx-swap-oob="beforeend:#log"><li>one</li></ul>')
    sockets[0].send('<ul hx-swap-oob="beforeend:#log"><li>two</li></ul>')
    expect(gallery.locator("#log li")).to_have_text(["one", "two"])
    assert len(sockets) == 1


def test_after_a_gap_the_state_is_fetched_again(gallery, sockets):
    gallery.evaluate(START)
    expect(state(gallery)).to_have_text("Live")
    asked = answer_state(gallery, "what was missed")
    sockets[0].close(code=1001)
    expect(state(gallery)).to_have_text("Reconnecting…")
    expect(gallery.locator("#part")).to_have_text("what was missed")
    expect(state(gallery)).to_have_text("Live")
    assert (len(sockets), len(asked)) == (2, 1)
    assert asked[0].headers["hx-request"] == "true"


def test_what_moved_before_the_socket_opened_is_not_missed(gallery):
    answer_state(gallery, "done before anybody listened")
    gallery.evaluate(START)
    expect(gallery.locator("#part")).to_have_text("done before anybody listened")


def test_an_old_answer_does_not_replace_newer_words_of_the_socket(gallery, sockets):
    waiting = []
    gallery.unroute("**/test/state/")
    gallery.route("**/test/state/", lambda route: waiting.append(route))
    gallery.evaluate(START)
    while not waiting:
        gallery.wait_for_timeout(50)
    sockets[0].send(PART.format("new words"))
    expect(gallery.locator("#part")).to_have_text("new words")
    waiting.pop(0).fulfill(status=200, content_type="text/html", body=PART.format("old answer"))
    while not waiting:  # it asks again
        gallery.wait_for_timeout(50)
    expect(gallery.locator("#part")).to_have_text("new words")
    waiting.pop(0).fulfill(status=200, content_type="text/html", body=PART.format("newest"))
    expect(gallery.locator("#part")).to_have_text("newest")


def test_where_no_socket_opens_the_state_is_polled(gallery):
    # As behind a proxy that blocks them.
    gallery.evaluate("""() => {
        window.WebSocket = class extends EventTarget {
            constructor() {
                super();
                setTimeout(() => this.dispatchEvent(new CloseEvent("close", { code: 1006 })));
            }
            close() {}
        };
    }""")
    answer_state(gallery, "polled once")
    gallery.evaluate(START)
    expect(gallery.locator("#part")).to_have_text("polled once", timeout=10_000)
    expect(state(gallery)).to_have_attribute("data-state", "polling")
    answer_state(gallery, "polled again")
    expect(gallery.locator("#part")).to_have_text("polled again", timeout=10_000)


def test_when_all_is_said_it_disconnects(gallery, sockets):
    gallery.evaluate(START)
    expect(state(gallery)).to_have_text("Live")
    closed = []
    sockets[0].on_close(lambda code, reason: closed.append(code))
    sockets[0].send('<p id="part" data-live-end>finished</p>')
    expect(state(gallery)).to_be_hidden()
    gallery.wait_for_timeout(1500)
    assert (len(sockets), len(closed)) == (1, 1)


def test_a_part_that_leaves_the_page_closes_its_socket(gallery, sockets):
    closed = []
    gallery.evaluate(START)
    expect(state(gallery)).to_have_text("Live")
    sockets[0].on_close(lambda code, reason: closed.append(code))
    gallery.evaluate("document.getElementById('run').remove()")
    gallery.wait_for_timeout(1000)
    assert (len(sockets), len(closed)) == (1, 1)
