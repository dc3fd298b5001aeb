// Reading a pair: rows are opened before they are reached; j and k move through both runs, h and l show only one.
import { attach } from "../core/attach.js";
import { bind } from "../core/keys.js";
import { CHANGED, layout } from "./layout.js";
import { openNear } from "./row_loading.js";

const UNCHOSEN = "Choose an answer first: 1 to 7, or 0 for both bad.";

attach("[data-pair]", (article, signal) => {
  const scroll = article.querySelector(".desk-scroll");
  const open = openNear(article, signal, (shell, opened) => {
    opened.classList.toggle("current", shell.classList.contains("current"));
    const focused = shell === document.activeElement;
    shell.replaceWith(opened);
    if (focused) opened.focus({ preventScroll: true });
  });

  const rows = () => [...article.querySelectorAll(".pair-row")].filter((row) => row.offsetParent !== null);

  function walk(by) {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row.classList.contains("current"));
    const first = Math.max(
      all.findIndex((row) => row.dataset.row === article.dataset.first),
      0,
    );
    const next = at < 0 ? first : Math.min(Math.max(at + by, 0), all.length - 1);
    all[at]?.classList.remove("current");
    all[next].classList.add("current");
    all[next].focus({ preventScroll: true });
    if (next === 0) scroll.scrollTop = 0;
    else all[next].scrollIntoView({ block: "start" });
  }

  function pick(side) {
    article.dataset.side = side;
    const alone = article.dataset.only === side ? "" : side;
    article.dataset.only = alone;
    for (const button of article.querySelectorAll("[data-side-pick]")) {
      button.setAttribute("aria-pressed", String(button.dataset.sidePick === (isSwitch() ? side : alone)));
    }
  }

  /** Whether only one side is shown at a time, by choice or for lack of room. */
  const isSwitch = () =>
    layout("sides") === "one" || (layout("sides") !== "stacked" && matchMedia("(max-width: 719px)").matches);

  function toggleFolds() {
    const folds = [...article.querySelectorAll("details.pair-fold")];
    const opens = folds.some((fold) => !fold.open);
    for (const fold of folds) fold.open = opens;
  }

  bind({
    keys: "j",
    label: "Next step of both",
    group: "Reading",
    run: () => walk(1),
    repeat: true,
    inside: article,
    signal,
  });
  bind({
    keys: "k",
    label: "Previous step of both",
    group: "Reading",
    run: () => walk(-1),
    repeat: true,
    inside: article,
    signal,
  });
  bind({
    keys: "o",
    label: "Open or fold identical steps",
    group: "Reading",
    run: toggleFolds,
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
    "desk:check",
    ({ detail }) => {
      if (!detail.problem && !article.querySelector("[name=answer]:checked")) detail.problem = UNCHOSEN;
    },
    { signal },
  );
  article.addEventListener(
    "click",
    (event) => {
      const button = event.target.closest("[data-side-pick]");
      if (button) pick(button.dataset.sidePick);
      const head = event.target.closest(".pair-row .step-head");
      if (!head) return;
      event.preventDefault();
      const row = head.closest(".pair-row");
      if (row.dataset.closed !== undefined) open(row);
      else for (const step of row.querySelectorAll(".step")) step.classList.toggle("closed");
    },
    { signal },
  );
  const showSwitch = () => {
    article.dataset.only = "";
    for (const button of article.querySelectorAll("[data-side-pick]"))
      button.setAttribute("aria-pressed", String(isSwitch() && button.dataset.sidePick === article.dataset.side));
  };
  document.addEventListener(CHANGED, ({ detail }) => detail.name === "sides" && showSwitch(), { signal });
  showSwitch();
});
