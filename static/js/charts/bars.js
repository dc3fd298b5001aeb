// Bar charts: counts or shares by label, side by side if there are several series.
import { finite, scale, surface, svg, text, ticks, written } from "./drawing.js";

const HEIGHT = { small: 96, tall: 280, "": 160 };
const EDGE = { top: 8, right: 4, bottom: 24, left: 44 };

export function drawBars(canvas, { labels, series }, options) {
  const height = HEIGHT[options.size ?? ""] ?? HEIGHT[""];
  const { root, width } = surface(
    canvas,
    height,
    `${series.map(({ name }) => name).join(", ")} for each of ${labels.length}`,
  );
  const top = Number(options.max ?? Math.max(...finite(series.flatMap(({ ys }) => ys)), 0)) || 1;
  const bottom = height - EDGE.bottom;
  const toY = scale([0, top], [bottom, EDGE.top]);
  for (const value of ticks([0, top], Math.max(2, Math.round(height / 56)))) {
    const y = Math.round(toY(value)) + 0.5;
    root.append(
      svg("line", { x1: EDGE.left, y1: y, x2: width - EDGE.right, y2: y, class: "chart-grid" }),
      text(written(value, options), { x: EDGE.left - 8, y: y + 4, class: "chart-tick", "text-anchor": "end" }),
    );
  }
  const slot = (width - EDGE.left - EDGE.right) / Math.max(1, labels.length);
  const bar = Math.max(1, Math.min(32, (slot * 0.76) / series.length));
  const every = Math.ceil((Math.max(1, ...labels.map((label) => label.length)) * 6.2 + 8) / slot);
  labels.forEach((label, i) => {
    const middle = EDGE.left + slot * (i + 0.5);
    series.forEach(({ name, unit, ys }, index) => {
      if (!Number.isFinite(ys[i])) return;
      const x = middle + (index - series.length / 2) * bar;
      const y = Math.min(toY(ys[i]), bottom - (ys[i] > 0 ? 1 : 0));
      const rect = svg("rect", {
        x,
        y,
        width: Math.max(1, bar - 1),
        height: bottom - y,
        class: `chart-bar series-${(index % 6) + 1}`,
      });
      const words = svg("title");
      words.textContent = `${label}: ${written(ys[i], options)}${unit ? ` ${unit}` : ""}${series.length > 1 ? ` (${name})` : ""}`;
      rect.append(words);
      root.append(rect);
    });
    if (i % every === 0)
      root.append(text(label, { x: middle, y: bottom + 16, class: "chart-tick", "text-anchor": "middle" }));
  });
}
