// Stepping through a single run: j and k move from step to step, the strip above shows the position and the labels.
import { attach } from "../core/attach.js";
import { bind } from "../core/keys.js";
import { openNear } from "./row_loading.js";

/** The index of the step that keys act on. */
export function currentOf(article) {
  return Number(article.dataset.at ?? 0);
}

export function rowOf(article, index) {
  return article.querySelector(`#row-${index}`);
}

export function countOf(article) {
  return Number(article.dataset.count);
}

/** A step's position in the strip above the run. */
export function cellOf(article, index) {
  return article.querySelector(".walk-strip").children[index];
}

/** Makes a step the current one and scrolls its head to the top. */
export function goTo(article, index, { focus = true, scroll = true } = {}) {
  const row = rowOf(article, index);
  if (!row) return;
  const before = currentOf(article);
  const cell = cellOf(article, index);
  for (const element of [rowOf(article, before), cellOf(article, before)]) element?.classList.remove("current");
  for (const element of [row, cell]) element.classList.add("current");
  article.dataset.at = index;
  const strip = cell.parentElement;
  strip.scrollTop = cell.offsetTop - strip.offsetTop - strip.clientHeight / 2;
  if (focus) row.focus({ preventScroll: true });
  if (scroll) bringUp(article.querySelector(".desk-scroll"), row, index);
  // Rows that were never laid out have estimated heights, so a long scroll may end short of the step.
  if (scroll)
    requestAnimationFrame(
      () => currentOf(article) === index && bringUp(article.querySelector(".desk-scroll"), row, index),
    );
  const now = article.querySelector("[data-walk-now]");
  if (now) now.textContent = `Step ${(index + 1).toLocaleString()} of ${countOf(article).toLocaleString()}`;
  article.dispatchEvent(new CustomEvent("walk:at", { detail: { index } }));
}

// scrollIntoView would also scroll the whole page if it doesn't fit a small screen.
function bringUp(pane, row, index) {
  pane.scrollTop =
    index === 0 ? 0 : pane.scrollTop + row.getBoundingClientRect().top - pane.getBoundingClientRect().top;
}

attach("[data-walk]", (article, signal) => {
  // A row's label and notes stay; only the step itself is replaced by its opened form.
  openNear(article, signal, (shell, opened) => {
    shell.querySelector(":scope > .step").replaceWith(opened.querySelector(":scope > .step"));
    delete shell.dataset.closed;
    article.dispatchEvent(new CustomEvent("walk:opened", { detail: { index: Number(shell.dataset.row) } }));
  });
  const move = (by) => goTo(article, Math.min(Math.max(currentOf(article) + by, 0), countOf(article) - 1));
  bind({ keys: "j", label: "Next step", group: "Reading", run: () => move(1), repeat: true, inside: article, signal });
  bind({
    keys: "k",
    label: "Previous step",
    group: "Reading",
    run: () => move(-1),
    repeat: true,
    inside: article,
    signal,
  });
  bind({
    keys: "o",
    label: "Open or close this step",
    group: "Reading",
    run: () => toggle(rowOf(article, currentOf(article))),
    inside: article,
    signal,
  });
  bind({
    keys: "t",
    label: "The whole task",
    group: "Reading",
    run: () => article.querySelector(".desk-task").toggleAttribute("open"),
    inside: article,
    signal,
  });
  article.addEventListener(
    "click",
    (event) => {
      const cell = event.target.closest("[data-go]");
      if (cell) goTo(article, Number(cell.dataset.go));
      const head = event.target.closest(".walk-row .step-head");
      if (!head) return;
      event.preventDefault();
      const row = head.closest(".walk-row");
      if (currentOf(article) === Number(row.dataset.row) && !event.target.closest(".step-number")) toggle(row);
      else goTo(article, Number(row.dataset.row));
    },
    { signal },
  );
  // Clicking or tabbing into a step makes it current.
  article.addEventListener(
    "focusin",
    ({ target }) => {
      const row = target.closest(".walk-row");
      if (row && Number(row.dataset.row) !== currentOf(article))
        goTo(article, Number(row.dataset.row), { focus: false, scroll: false });
    },
    { signal },
  );
  goTo(article, currentOf(article), { focus: false });
});

function toggle(row) {
  row?.querySelector(":scope > .step").classList.toggle("closed");
}
