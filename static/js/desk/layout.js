// The arrangement of the desk. The layout menu is its single source; it's applied to the desk as data-layout-… for
// the style sheets, and read here for folding. The layout doesn't affect what is judged.
import { attach } from "../core/attach.js";

export const CHANGED = "desk:layout";
const FOLDED = '.desk-work .part:is(.reasoning, [data-role="tool"]):not(:has(> details))';
const SETTING_OF = { reasoning: "reasoning", tool: "results" };

const nameOf = (attribute) => attribute.replace("data-layout-", "");

/** The current value of a layout setting, such as layout("bar"); null without a desk, as in a review. */
export function layout(name) {
  return document.querySelector("[data-desk]")?.getAttribute(`data-layout-${name}`) ?? null;
}

/** Changes a setting as if chosen in the menu, which saves it on the server. */
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

// The response to an earlier change doesn't include a later pending one.
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
  // Judging keys are disabled while the layout is edited.
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

/** Which parts of an item are initially open. */
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

// Steps are opened one after another; each is shown according to the layout.
attach(FOLDED, fold);

/** Puts a part under a line that opens it, if the layout folds such parts. */
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
