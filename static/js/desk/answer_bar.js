// The answer bar is fully visible if enough of the window remains for reading; otherwise it's one line that expands
// over the content on demand. Its keys work either way.
import { attach } from "../core/attach.js";
import { arrange, CHANGED, layout } from "./layout.js";

/** The share of the window's height reserved for reading. */
const READING = 0.6;
/** Whether there is room for the bar beside the content; must match desk_layout.css. */
const BESIDE = matchMedia("(min-width: 1100px)");

attach("[data-answer]", (form, signal) => {
  const article = form.closest("[data-item]");
  const reading = article.querySelector(".desk-scroll");
  const button = form.querySelector("[data-bar-toggle]");
  let fits = true;
  let isGrown = false;

  function show() {
    const shape = fits && layout("bar") !== "line" ? "full" : isGrown ? "grown" : "line";
    if (shape !== form.dataset.bar) {
      // The expanded bar overlays the content, so that the content doesn't move.
      article.style.setProperty("--line", shape === "grown" ? `${form.offsetHeight}px` : "0px");
      form.dataset.bar = shape;
    }
    button.setAttribute("aria-expanded", String(shape !== "line"));
    button.hidden = isBeside();
  }

  const isBeside = () => layout("bar") === "right" && BESIDE.matches;

  function fit() {
    const before = form.dataset.bar;
    form.dataset.bar = "full";
    fits =
      isBeside() ||
      (reading.clientHeight >= Math.floor(READING * innerHeight) && form.scrollHeight <= form.clientHeight + 1);
    form.dataset.bar = before ?? "full";
    show();
  }

  function grow(grown) {
    isGrown = grown;
    show();
    if (grown) form.scrollTop = 0;
  }

  function toggle() {
    if (fits) arrange("bar", form.dataset.bar === "line" ? "bottom" : "line");
    else grow(!isGrown);
  }

  article.addEventListener(
    "click",
    (event) => {
      if (!event.target.closest(".skip")) return;
      event.preventDefault(); // avoids a browser history entry for each item
      [...form.querySelectorAll("input, button")].find((each) => each.checkVisibility()).focus();
    },
    { signal },
  );
  button.addEventListener("click", toggle, { signal });
  // Aspects opened by hand where there is no room beside the content stay open.
  form.addEventListener(
    "toggle",
    ({ target }) => {
      const wasFull = form.dataset.bar === "full";
      fit();
      if (wasFull && !fits && target.open) grow(true);
    },
    { signal, capture: true },
  );
  addEventListener("resize", fit, { signal });
  document.addEventListener(CHANGED, fit, { signal });
  article.addEventListener("keydown", (event) => event.key === "Escape" && grow(false), { signal });
  reading.addEventListener("pointerdown", () => grow(false), { signal });
  fit();
});
