"""static/js/core/live.js against a socket that opens, breaks, or never opens."""

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

PART = '<p id="part">{}</p>'
START = """() => {
    document.getElementById("content").insertAdjacentHTML("beforeend",
        '<span data-live-state></span><div id="run" data-live="/ws/test/" data-live-poll="/test/state/">'
        + '<p id="part">as the page was rendered</p><ul id="log"></ul></div>');
    window.said = [];
    const note = () => said.at(-1) === output.textContent || said.push(output.textContent);
    const output = [...document.querySelectorAll("[data-live-state]")].at(-1);
    new MutationObserver(note).observe(output, { childList: true });
}"""
"""Adds a live part and records its connection states, some of which are transient."""


@pytest.fixture
def sockets(page):
    """The server's ends of the sockets that the page opened."""
    opened = []
    page.route_web_socket("**/ws/test/", lambda socket: opened.append(socket))
    return opened


class Server:
    """The server's response to requests for the state."""

    def __init__(self, page):
        self.words = "as the page was rendered"
        self.held = None
        page.route("**/test/state/", self._answer)

    def hold(self):
        """Hold requests; returns the list in which they are collected."""
        self.held = []
        return self.held

    def _answer(self, route):
        if self.held is not None:
            self.held.append(route)
        else:
            answer(route, self.words)


def answer(route, words):
    route.fulfill(status=200, content_type="text/html", body=PART.format(words))


@pytest.fixture
def server(page):
    return Server(page)


@pytest.fixture
def gallery(page, sockets, server):
    page.goto("/gallery/")
    return page


@pytest.fixture
def listening(gallery):
    """The page with its live part connected and the initial state fetched."""
    with gallery.expect_request_finished(lambda request: request.url.endswith("/test/state/")):
        gallery.evaluate(START)
    expect(state(gallery)).to_have_text("Live")
    return gallery


def state(page):
    return page.locator("[data-live-state]").last


def test_partials_from_the_socket_take_their_places(listening, sockets):
    sockets[0].send(PART.format("step 12"))
    expect(listening.locator("#part")).to_have_text("step 12")
    sockets[0].send('<ul hx-swap-oob="beforeend:#log"><li>one</li></ul>')
    sockets[0].send('<ul hx-swap-oob="beforeend:#log"><li>two</li></ul>')
    expect(listening.locator("#log li")).to_have_text(["one", "two"])
    assert len(sockets) == 1


def test_after_a_gap_the_state_is_fetched_again(listening, sockets, server):
    server.words = "what was missed"
    with listening.expect_request_finished(lambda request: request.url.endswith("/test/state/")) as request_info:
        sockets[0].close(code=1001)
    expect(listening.locator("#part")).to_have_text("what was missed")
    expect(state(listening)).to_have_text("Live")
    assert listening.evaluate("said") == ["Live", "Reconnecting…", "Live"]
    assert len(sockets) == 2
    assert request_info.value.headers["hx-request"] == "true"


def test_what_moved_before_the_socket_opened_is_not_missed(gallery, server):
    server.words = "done before anybody listened"
    gallery.evaluate(START)
    expect(gallery.locator("#part")).to_have_text("done before anybody listened")


def test_an_old_answer_does_not_replace_newer_words_of_the_socket(gallery, sockets, server):
    waiting = server.hold()
    gallery.evaluate(START)
    while not waiting:
        gallery.wait_for_timeout(50)
    sockets[0].send(PART.format("new words"))
    expect(gallery.locator("#part")).to_have_text("new words")
    answer(waiting.pop(0), "old answer")
    while not waiting:  # it requests the state again
        gallery.wait_for_timeout(50)
    expect(gallery.locator("#part")).to_have_text("new words")
    answer(waiting.pop(0), "newest")
    expect(gallery.locator("#part")).to_have_text("newest")


def test_where_no_socket_opens_the_state_is_polled(gallery, server):
    # As if a proxy blocked them.
    gallery.evaluate("""() => {
        window.WebSocket = class extends EventTarget {
            constructor() {
                super();
                setTimeout(() => this.dispatchEvent(new CloseEvent("close", { code: 1006 })));
            }
            close() {}
        };
    }""")
    server.words = "polled once"
    gallery.evaluate(START)
    expect(gallery.locator("#part")).to_have_text("polled once", timeout=10_000)
    expect(state(gallery)).to_have_attribute("data-state", "polling")
    server.words = "polled again"
    expect(gallery.locator("#part")).to_have_text("polled again", timeout=10_000)


def test_when_all_is_said_it_disconnects(listening, sockets):
    closed = []
    sockets[0].on_close(lambda code, reason: closed.append(code))
    sockets[0].send('<p id="part" data-live-end>finished</p>')
    expect(state(listening)).to_be_hidden()
    listening.wait_for_timeout(1500)
    assert (len(sockets), len(closed)) == (1, 1)


def test_a_part_that_leaves_the_page_closes_its_socket(listening, sockets):
    closed = []
    sockets[0].on_close(lambda code, reason: closed.append(code))
    listening.evaluate("document.getElementById('run').remove()")
    listening.wait_for_timeout(1000)
    assert (len(sockets), len(closed)) == (1, 1)
