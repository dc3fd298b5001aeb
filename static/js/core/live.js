// A live part of a page: <div id="run" data-live="/ws/runs/1" data-live-poll="/runs/1/live">.
//
// The socket sends rendered partials. Each top-level element has an id and replaces the element with that id;
// one with hx-swap-oob specifies its own target ("beforeend:#log"). A partial without a target on the page is ignored.
//
// Messages aren't stored, so after every gap the state is fetched again: from data-live-poll (partials, as above) or
// from the page itself, whose element with the same id is used. If no socket opens (a proxy
// blocks them), the state is polled every few seconds instead. data-live-end on or in it ends the connection: nothing more will change.
// data-changes-by-itself in it: it shows something that changes without messages, such as what a job waits for, so it's also polled.
import { attach } from "./attach.js";
import { fragmentOf, pageOf, swapIn } from "./markup.js";
import { request } from "./requests.js";
import { preservingState } from "./view_state.js";

const FIRST_WAIT_MS = 500;
const MAX_WAIT_MS = 15_000;
const POLL_MS = 3_000;
const REFRESH_MS = 4_000;
const TRIES_BEFORE_POLLING = 3;
const NOT_FOUND = 4404;

/** Swaps rendered partials into the page by their ids. */
export function swapPartials(html) {
  const content = fragmentOf(html);
  for (const element of [...content.children]) {
    if (element.hasAttribute("hx-swap-oob") || !element.id) continue;
    if (document.getElementById(element.id)) element.setAttribute("hx-swap-oob", "true");
    else element.remove();
  }
  preservingState(() => swapIn(document.body, content, "none"));
  document.dispatchEvent(new CustomEvent("live:swapped"));
}

attach("[data-live]", (root, signal) => {
  const { id } = root;
  const { live: path, livePoll: pollUrl } = root.dataset;
  let socket = null;
  let failures = 0;
  let timer = 0;
  let opened = false;
  let messageCount = 0;

  const currentRoot = () => (id && document.getElementById(id)) || root;
  const ended = () =>
    signal.aborted ||
    currentRoot().matches("[data-live-end]") ||
    currentRoot().querySelector("[data-live-end]") !== null;

  function showState(state) {
    for (const element of document.querySelectorAll("[data-live-state]")) {
      element.dataset.state = state;
      element.textContent = { live: "Live", reconnecting: "Reconnecting…", polling: "Live", ended: "" }[state];
      element.hidden = state === "ended";
    }
  }

  async function fetchState(tries = 3) {
    const countBefore = messageCount;
    const response = await request(
      pollUrl ?? location.href,
      pollUrl ? { headers: { "HX-Request": "true" }, signal } : { signal },
    );
    const text = await response.text();
    // Socket messages that arrived meanwhile may be newer than this response; the next one is newer than both.
    if (messageCount !== countBefore) return tries > 1 ? fetchState(tries - 1) : undefined;
    if (pollUrl) {
      if (response.status !== 204) swapPartials(text);
      if (ended()) socket?.close();
      return;
    }
    const page = pageOf(text);
    const fetched = id && page.getElementById(id);
    // Only the content: replacing the element itself would start another connection.
    if (fetched) preservingState(() => swapIn(currentRoot(), fetched, "innerHTML"));
  }

  function connect() {
    if (ended()) return showState("ended");
    const url = new URL(path, location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    socket = new WebSocket(url);
    socket.addEventListener("open", () => {
      opened = true;
      failures = 0;
      showState("live");
      // On the first connection, too: the state may have changed since the page was rendered.
      fetchState().catch(() => socket.close());
    });
    socket.addEventListener("message", ({ data }) => {
      messageCount += 1;
      swapPartials(data);
      if (!ended()) return;
      // Socket messages are for many browsers, so nothing in them may send requests; the same content fetched by this one may (see nonce.js).
      fetchState()
        .catch(() => {})
        .finally(() => {
          showState("ended");
          socket.close();
        });
    });
    socket.addEventListener("close", ({ code }) => {
      if (ended() || code === NOT_FOUND) return showState("ended");
      failures += 1;
      if (!opened && failures >= TRIES_BEFORE_POLLING) return poll();
      showState("reconnecting");
      timer = setTimeout(connect, waitAfter(failures));
    });
  }

  async function poll() {
    if (ended()) return showState("ended");
    try {
      if (!document.hidden) await fetchState();
      failures = 0;
      showState("polling");
    } catch {
      if (signal.aborted) return;
      failures += 1;
      showState("reconnecting");
    }
    timer = setTimeout(poll, failures ? Math.max(POLL_MS, waitAfter(failures)) : POLL_MS);
  }

  const refreshTimer = setInterval(() => {
    const isOpen = socket?.readyState === WebSocket.OPEN;
    if (isOpen && !document.hidden && currentRoot().querySelector("[data-changes-by-itself]"))
      fetchState().catch(() => {});
  }, REFRESH_MS);

  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    clearInterval(refreshTimer);
    socket?.close();
  });
  connect();
});

// Exponential backoff with jitter, so that clients don't all reconnect to a restarted server at once.
function waitAfter(failures) {
  const wait = Math.min(FIRST_WAIT_MS * 2 ** (failures - 1), MAX_WAIT_MS);
  return wait * (0.75 + Math.random() / 2);
}
