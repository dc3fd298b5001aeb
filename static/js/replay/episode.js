// An episode in progress: [data-following] holds its steps so far. live.js updates their number; missing
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
      const response = await fetch(`${root.dataset.stepsUrl}?from=${steps().length}`, {
        headers: { "HX-Request": "true" },
        credentials: "same-origin",
        signal,
      });
      if (!response.ok) return;
      const content = fragmentOf(await response.text());
      add([...content.children].filter((step) => Number(step.dataset.step) >= steps().length));
    } catch {
      // The next update or poll tries again.
    } finally {
      busy = false;
    }
  }

  function add(articles) {
    if (!articles.length) return;
    const stay = isAtEnd();
    list.append(...articles);
    if (stay) pane.scrollTop = pane.scrollHeight;
    say();
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
