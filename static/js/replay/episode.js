// An episode or a session in progress: [data-following] holds its steps so far. live.js updates their number; missing
// ones are fetched by index, so nothing is shown twice and gaps close automatically. A reader at the end stays at the end;
// a reader further up stays there and is told how many steps have arrived.
import { attach } from "../core/attach.js";
import { bind } from "../core/keys.js";
import { fragmentOf } from "../core/markup.js";
import "./long_content.js";

const NEAR_END = 60; // px

attach("[data-following]", (root, signal) => {
  const list = root.querySelector("[data-steps]");
  const button = root.querySelector("[data-new]");
  const pane = root.closest(".content");
  const steps = () => [...list.children];
  let busy = false;
  let seen = steps().length;
  let current = null;

  const count = () => Number(document.getElementById("episode-state")?.dataset.count ?? 0);
  const isAtEnd = () => pane.scrollTop + pane.clientHeight >= pane.scrollHeight - NEAR_END;

  async function catchUp() {
    if (busy || steps().length >= count()) return;
    busy = true;
    try {
      await fetchSteps(Math.max(0, steps().length - 1));
    } catch {
      // The next update or poll tries again.
    } finally {
      busy = false;
    }
  }

  // The last step shown is fetched again, since what its calls returned comes with the next one.
  async function fetchSteps(first) {
    const response = await fetch(`${root.dataset.stepsUrl}?from=${first}`, {
      headers: { "HX-Request": "true" },
      credentials: "same-origin",
      signal,
    });
    if (!response.ok) return;
    const articles = [...fragmentOf(await response.text()).children];
    // Another chat of the session is now the longest, or the episode was restarted: shown in place of this one.
    if (first && articles[0] && articles[0].dataset.mark !== steps()[first].dataset.mark) {
      list.replaceChildren();
      seen = 0;
      return fetchSteps(0);
    }
    add(articles);
  }

  function add(articles) {
    if (!articles.length) return;
    const stay = isAtEnd();
    for (const article of articles) {
      const shown = steps()[article.dataset.step];
      if (shown) replace(shown, article);
      else list.append(article);
    }
    if (stay) pane.scrollTop = pane.scrollHeight;
    say();
  }

  function replace(shown, article) {
    article.className = shown.className;
    if (article.isEqualNode(shown)) return;
    const isFocused = shown.contains(document.activeElement);
    shown.replaceWith(article);
    if (shown === current) current = article;
    if (isFocused) article.focus({ preventScroll: true });
  }

  function say() {
    if (isAtEnd()) seen = steps().length;
    const unseen = steps().length - seen;
    button.hidden = unseen <= 0;
    button.textContent = `${unseen} new step${unseen === 1 ? "" : "s"} ↓`;
  }

  function go(step) {
    if (!step) return;
    current?.classList.remove("current");
    current = step;
    step.classList.add("current");
    pane.scrollTop += step.getBoundingClientRect().top - pane.getBoundingClientRect().top;
    step.focus({ preventScroll: true });
    say();
  }

  const move = (by) => go(steps()[Math.min(steps().length - 1, Math.max(0, steps().indexOf(current) + by))]);
  const key = (keys, label, run) => bind({ keys, label, group: "Replay", run, repeat: true, signal });
  key("j", "Next step", () => move(1));
  key("k", "Previous step", () => move(-1));
  key("g g", "First step", () => go(steps()[0]));
  key("G", "Last step, and follow new ones", () => {
    go(steps().at(-1));
    pane.scrollTop = pane.scrollHeight;
    say();
  });

  button.addEventListener("click", () => go(steps()[seen]), { signal });
  pane.addEventListener("scroll", say, { passive: true, signal });
  document.addEventListener("live:swapped", catchUp, { signal });
  root.dataset.ready = "";
  catchUp();
});
