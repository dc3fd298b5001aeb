// The replay of one run: [data-replay] holds the outline, the steps, and the facts. The URL always names the step.
import { attach } from "../core/attach.js";
import { bind } from "../core/keys.js";
import { afterPaint } from "../core/paint.js";
import { jumps } from "./jumps.js";
import { Bodies } from "./step_bodies.js";
import "./minimap.js";
import { Outline } from "./outline.js";
import "./long_content.js";
import { remarks } from "./judgments.js";
import { search } from "./search.js";
import { StepWindow } from "./step_window.js";

const GROUP = "Replay";

attach("[data-replay]", async (replay, signal) => {
  const list = replay.querySelector("[data-steps]");
  if (!list) return;
  const steps = await outlineOf(replay.dataset.outlineUrl, signal);
  if (!steps) return;
  const urlOf = (index) => `${replay.dataset.url}steps/${index + 1}/`;
  const bodies = new Bodies(replay.dataset.stepsUrl, steps.length, (index, article) => view.arrived(index, article));
  const view = new StepWindow(replay.querySelector("[data-steps-pane]"), list, steps, { bodies, urlOf, signal });
  const outline = new Outline(replay.querySelector("[data-outline]"), steps, {
    urlOf,
    onGo: (index) => {
      shut();
      go(index);
    },
    signal,
  });

  function go(index, { scroll = true, focus = true } = {}) {
    if (index === undefined || index < 0 || index >= steps.length) return;
    if (!view.places.has(index)) showAll();
    view.go(index, { scroll });
    outline.go(index);
    replay.dataset.current = index; // for a minimap that is drawn anew
    if (focus) focusAfterPaint(index);
    document.dispatchEvent(new CustomEvent("replay:at", { detail: { index } }));
    name(index);
  }

  // Focusing forces a layout; after the frame it's already done. A field focused meanwhile keeps the focus.
  function focusAfterPaint(index) {
    const before = document.activeElement;
    afterPaint(() => {
      const article = view.shown.get(index);
      const hasMovedFocus =
        document.activeElement !== before &&
        document.activeElement !== document.body &&
        !view.list.contains(document.activeElement);
      if (index === view.current && !hasMovedFocus) article?.focus({ preventScroll: true });
    });
  }

  // On a narrow screen the outline overlays the steps.
  function shut() {
    const drawer = replay.querySelector("#outline");
    if (drawer.matches(":popover-open")) drawer.hidePopover();
  }

  // Browsers limit URL changes to about 200 in 30 s, so a held key only updates it when released.
  let naming = 0;
  function name(index) {
    clearTimeout(naming);
    naming = setTimeout(() => history.replaceState(history.state, "", urlOf(index)), 120);
  }

  const move = (by) => go(view.order[(view.places.get(view.current) ?? -1) + by]);
  const current = () => view.current ?? 0;
  const filter = replay.querySelector("[data-filter]");
  const judged = remarks(replay, { changed: (indices) => outline.setJudged(indices), go, signal });
  // Filter options besides kinds.
  const filters = {
    error: (step) => step.isError,
    reward: (step) => Boolean(step.reward),
    tool: (step) => step.tool !== "",
    judged: (step) => judged().has(step.index),
  };

  function showAll() {
    if (filter) filter.value = "";
    apply();
  }

  function apply() {
    const chosen = filter?.value;
    const shows = !chosen ? () => true : (filters[chosen] ?? ((step) => step.kind.slug === chosen));
    const order = steps.filter(shows).map((step) => step.index);
    view.setOrder(order);
    outline.setOrder(order);
    return order;
  }

  filter?.addEventListener("change", () => {
    const order = apply();
    filter.blur();
    go(order.find((index) => index >= current()) ?? order.at(-1));
  });

  const key = (keys, label, run, more = {}) => bind({ keys, label, group: GROUP, run, signal, ...more });
  key("j", "Next step", () => move(1), { repeat: true });
  key("k", "Previous step", () => move(-1), { repeat: true });
  key("g g", "First step", () => go(view.order[0]));
  key("G", "Last step", () => go(view.order.at(-1)));
  key("Enter", "Open or close the step", () => view.toggle(current()));
  key("o", "Open or close all steps", () => {
    view.toggleAll();
    go(current());
  });

  replay.addEventListener("replay:go", ({ detail }) => go(detail.index), { signal });
  view.onScroll = (index) =>
    index !== undefined && index !== view.current && go(index, { scroll: false, focus: false });
  view.list.addEventListener(
    "click",
    (event) => {
      const article = event.target.closest("article");
      const head = event.target.closest(".step-head");
      if (!article || event.ctrlKey || event.metaKey || event.shiftKey) return;
      const index = Number(article.dataset.step);
      if (event.target.closest(".step-number")) event.preventDefault();
      else if (head && !event.target.closest("a, button")) view.toggle(index);
      go(index, { scroll: Boolean(event.target.closest(".step-number")), focus: Boolean(head) });
    },
    { signal },
  );
  jumps(replay, { steps, filters, current, go, signal });
  search(replay, { outline, window: view, go, signal });
  go(startAt(replay), { focus: false });
  replay.dataset.ready = "";
});

// #step-12 opens that step too, as a hand-typed form.
function startAt(replay) {
  const named = /^#step-(\d+)$/.exec(location.hash);
  return Math.min(Number(named ? named[1] - 1 : replay.dataset.current), Number(replay.dataset.count) - 1);
}

async function outlineOf(url, signal) {
  for (let attempt = 0; !signal.aborted; attempt++) {
    try {
      const response = await fetch(url, { credentials: "same-origin", signal });
      if (response.ok) return read(await response.json());
      if (response.status < 500) return null;
    } catch {
      if (signal.aborted) return null;
    }
    await new Promise((resolve) => setTimeout(resolve, Math.min(10_000, 500 * 2 ** attempt)));
  }
  return null;
}

function read({ kinds, steps }) {
  return steps.map(([kind, tool, headline, result, isError, reward, seconds, lines], index) => ({
    index,
    kind: kinds[kind],
    tool,
    headline,
    result,
    isError: Boolean(isError),
    reward,
    seconds,
    lines,
  }));
}
