// How the desk is arranged. The menu of layouts is the one place that holds it; the desk wears it as data-layout-… for
// the style sheets, and what folds reads it here. What is judged is the same whatever the layout.
import { attach } from "../core/attach.js";

export const CHANGED = "desk:layout";
const FOLDED = '.desk-work .part:is(.reasoning, [data-role="tool"]):not(:has(> details))';
const SETTING_OF = { reasoning: "reasoning", tool: "results" };

const nameOf = (attribute) => attribute.replace("data-layout-", "");

/** What a setting of the layout says now, such as layout("bar"); null where there is no desk, as in a review. */
export function layout(name) {
  return document.querySelector("[data-desk]")?.getAttribute(`data-layout-${name}`) ?? null;
}

/** Changes a setting as if it was chosen in the menu, where the server hears of it. */
export function arrange(name, value) {
  const radio = document.getElementById(`layout-${name}-${value}`);
  if (!radio || radio.checked) return;
  radio.checked = true;
  radio.dispatchEvent(new Event("change", { bubbles: true }));
}

function put(name, value) {
  const desk = document.querySelector("[data-desk]");
  if (desk.getAttribute(`data-layout-${name}`) === value) return;
  desk.setAttribute(`data-layout-${name}`, value);
  document.dispatchEvent(new CustomEvent(CHANGED, { detail: { name } }));
}

// Of a change that waits for the answer to the one before, that answer knows nothing yet.
let isWaiting = false;

attach("[data-layout]", (state) => {
  if (isWaiting) return;
  for (const { name, value } of state.attributes) {
    if (!name.startsWith("data-layout-")) continue;
    const radio = document.getElementById(`layout-${nameOf(name)}-${value}`);
    if (radio) radio.checked = true;
    put(nameOf(name), value);
  }
});

attach("[data-layout-menu]", (menu, signal) => {
  const summary = menu.querySelector("summary");
  const settings = menu.querySelector(".layout-settings");
  const naming = menu.querySelector(".layout-name");
  settings.addEventListener(
    "change",
    ({ target }) => {
      isWaiting = true;
      put(target.name, target.value);
    },
    { signal, capture: true }, // before htmx sends it
  );
  settings.addEventListener("htmx:beforeRequest", () => (isWaiting = false), { signal });
  naming.addEventListener("htmx:afterRequest", ({ detail }) => detail.successful && naming.reset(), { signal });
  // Keys that judge sleep while one arranges.
  menu.addEventListener(
    "keydown",
    (event) => {
      if (!menu.open || event.key === "Escape") return;
      event.stopPropagation();
      if (event.key !== summary.dataset.key || event.target.matches("#layout-name")) return;
      menu.open = false;
      event.preventDefault();
    },
    { signal },
  );
  menu.addEventListener(
    "toggle",
    () => {
      if (menu.open) (menu.querySelector("[aria-pressed=true], :checked") ?? summary).focus();
      else if (menu.contains(document.activeElement) || document.activeElement === document.body)
        document.querySelector(".desk-scroll")?.focus({ preventScroll: true });
    },
    { signal },
  );
});

/** What of an item stands open when it comes. */
attach(".desk-work [data-item]", (article, signal) => {
  const task = () => article.querySelector(".desk-task")?.toggleAttribute("open", layout("task") === "open");
  const same = () => {
    for (const fold of article.querySelectorAll(".pair-fold")) fold.open = layout("same") === "open";
  };
  const parts = () => {
    for (const part of article.querySelectorAll(".part > details.layout-fold")) openAsSaid(part);
    for (const part of article.querySelectorAll(FOLDED)) fold(part);
  };
  const all = { task, same, reasoning: parts, results: parts };
  document.addEventListener(CHANGED, ({ detail }) => all[detail.name]?.(), { signal });
  task();
  same();
});

// Steps come opened one after the other, and each arrives as the layout says.
attach(FOLDED, fold);

/** Puts a part under a line that opens it, where the layout folds such parts. */
function fold(part) {
  if (!isFolded(part)) return;
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  details.className = "fold layout-fold";
  summary.textContent = part.querySelector(".part-name")?.textContent ?? "";
  details.append(summary, ...part.childNodes);
  part.append(details);
}

function openAsSaid(details) {
  details.open = !isFolded(details.parentElement);
}

function isFolded(part) {
  return layout(SETTING_OF[part.dataset.role]) === "folded";
}
