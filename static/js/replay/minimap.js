// The minimap: shows the current position; a click or a drag goes there.
import { attach } from "../core/attach.js";

const LINE = 18; // apps/trajectories/minimap.py

attach("[data-map]", (map, signal) => {
  const svg = map.querySelector("svg");
  const marker = map.querySelector("[data-here]");
  const { columns, count, cell } = map.dataset;
  const stepAt = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const column = Math.min(columns - 1, Math.max(0, Math.floor(((event.clientX - box.left) * scale) / cell)));
    const line = Math.max(0, Math.floor(((event.clientY - box.top) * scale) / LINE));
    return Math.min(count - 1, line * columns + column);
  };
  const go = (event) =>
    map.dispatchEvent(new CustomEvent("replay:go", { bubbles: true, detail: { index: stepAt(event) } }));
  const mark = (index) => {
    marker.setAttribute("x", (index % columns) * cell);
    marker.setAttribute("y", Math.floor(index / columns) * LINE);
    marker.setAttribute("width", Math.max(Number(cell), 3));
  };
  svg.addEventListener(
    "pointerdown",
    (event) => {
      if (event.button !== 0 || count === "0") return;
      svg.setPointerCapture(event.pointerId);
      go(event);
    },
    { signal },
  );
  svg.addEventListener("pointermove", (event) => svg.hasPointerCapture(event.pointerId) && go(event), { signal });
  document.addEventListener("replay:at", ({ detail }) => mark(detail.index), { signal });
  const replay = map.closest("[data-replay]");
  if (replay) mark(Number(replay.dataset.current));
});
