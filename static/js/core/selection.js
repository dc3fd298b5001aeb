// Row selection: a scope [data-select] holds checkboxes [data-pick], one [data-pick-all], and a bar [data-bulk] that
// is shown while any are selected, with their number in [data-picked]. Shift-click selects a range; Esc deselects.
import { attach } from "./attach.js";

attach("[data-select]", (scope, signal) => {
  let last = null;
  const picks = () => [...scope.querySelectorAll("input[data-pick]:not(:disabled)")];

  function show() {
    const boxes = picks();
    const picked = boxes.filter((box) => box.checked).length;
    const all = scope.querySelector("input[data-pick-all]");
    if (all) {
      all.checked = picked > 0 && picked === boxes.length;
      all.indeterminate = picked > 0 && picked < boxes.length;
    }
    for (const bar of scope.querySelectorAll("[data-bulk]")) bar.hidden = picked === 0;
    for (const count of scope.querySelectorAll("[data-picked]")) count.textContent = picked.toLocaleString();
    scope.dispatchEvent(new CustomEvent("picked", { detail: { picked } }));
  }

  scope.addEventListener(
    "click",
    (event) => {
      const box = event.target.closest("input[data-pick]");
      if (box && event.shiftKey && last?.isConnected) {
        const boxes = picks();
        const [from, to] = [boxes.indexOf(last), boxes.indexOf(box)].sort((a, b) => a - b);
        for (const between of boxes.slice(from, to + 1)) between.checked = box.checked;
      }
      if (box) last = box;
      if (event.target.closest("[data-unpick]")) for (const each of picks()) each.checked = false;
      if (box || event.target.closest("[data-unpick]")) show();
    },
    { signal },
  );
  scope.addEventListener(
    "change",
    (event) => {
      if (event.target.matches("[data-pick-all]")) for (const box of picks()) box.checked = event.target.checked;
      show();
    },
    { signal },
  );
  document.addEventListener(
    "keydown",
    (event) => {
      if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open]")) return;
      if (!picks().some((box) => box.checked)) return;
      for (const box of picks()) box.checked = false;
      show();
    },
    { signal },
  );
  // Rows from a swap, or restored by the browser, bring their own state.
  scope.addEventListener("htmx:afterSettle", show, { signal });
  window.addEventListener("pageshow", show, { signal }); // by then the browser has restored the selection
  show();
});
