// People's judgments of single steps. They are loaded into the facts after the page; links [data-remark] go to their step.

/** Returns a function that gives the judged steps; `changed(set)` is called when they have loaded. */
export function remarks(replay, { changed, go, signal }) {
  const judged = () =>
    new Set([...replay.querySelectorAll("[data-remark]")].map((link) => Number(link.dataset.remark)));

  function update() {
    const steps = judged();
    const option = replay.querySelector("option[data-judged]");
    if (option && steps.size) {
      option.textContent = `Judged steps (${steps.size})`;
      option.hidden = option.disabled = false;
    }
    changed(steps);
  }

  replay.addEventListener("htmx:afterSwap", update, { signal });
  replay.addEventListener(
    "click",
    (event) => {
      const link = event.target.closest("a[data-remark]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      go(Number(link.dataset.remark));
    },
    { signal },
  );
  update();
  return judged;
}
