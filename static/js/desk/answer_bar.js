// The answer bar stands in full where reading keeps most of the window beside it; elsewhere it is one line, which grows
// over what is read when asked to. Its keys work either way.
import { attach } from "../core/attach.js";
import { arrange, CHANGED, layout } from "./layout.js";

/** The share of the window's height that is for reading. */
const READING = 0.6;
/** Where there is room for the bar beside what is read; desk_layout.css says the same. */
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
      // What is grown lies over what is read, so that this stays where it is.
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
      event.preventDefault(); // an entry in the browser's history for each item would be in the way
      [...form.querySelectorAll("input, button")].find((each) => each.checkVisibility()).focus();
    },
    { signal },
  );
  button.addEventListener("click", toggle, { signal });
  // Aspects that were opened where there is no room beside reading are what somebody asked for.
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
