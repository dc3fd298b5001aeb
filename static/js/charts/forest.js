// A forest plot: one row per estimate, its interval as a line, and a reference line.
import { domain, finite, scale, surface, svg, text, ticks, written } from "./drawing.js";

const ROW = 28;
const FOOT = 24;

export function drawForest(canvas, { labels, series }, options) {
  const [{ name, unit, ys, lows, highs }] = series;
  const height = labels.length * ROW + FOOT;
  const { root, width } = surface(canvas, height, `${name} with its interval, for each of ${labels.length}`);
  const names = Math.min(300, width * 0.34);
  const readout = width < 480 ? 56 : 168;
  const values = domain(finite(ys, lows ?? [], highs ?? []), options);
  const toX = scale(values, [names + 8, width - readout - 8]);
  const bottom = height - FOOT;

  for (const value of ticks(values, Math.max(2, Math.round((width - names - readout) / 80)))) {
    const x = Math.round(toX(value)) + 0.5;
    root.append(
      svg("line", { x1: x, y1: 0, x2: x, y2: bottom, class: "chart-grid" }),
      text(written(value, options), { x, y: bottom + 17, class: "chart-tick", "text-anchor": "middle" }),
    );
  }
  if (unit) root.append(text(unit, { x: width, y: bottom + 17, class: "chart-unit", "text-anchor": "end" }));
  if (options.reference) {
    const x = toX(Number(options.reference));
    root.append(svg("line", { x1: x, y1: 0, x2: x, y2: bottom, class: "chart-reference" }));
  }
  labels.forEach((label, i) => {
    const y = i * ROW + ROW / 2;
    const cut = Math.floor(names / 6.6);
    const words = text(label.length > cut ? `${label.slice(0, cut - 1)}…` : label, {
      x: 0,
      y: y + 4,
      class: "chart-label",
    });
    words.append(title(label));
    root.append(words);
    if (!Number.isFinite(ys[i])) return;
    const hasInterval = Number.isFinite(lows?.[i]) && Number.isFinite(highs?.[i]);
    if (hasInterval)
      root.append(svg("line", { x1: toX(lows[i]), y1: y, x2: toX(highs[i]), y2: y, class: "chart-interval" }));
    root.append(svg("rect", { x: toX(ys[i]) - 4, y: y - 4, width: 8, height: 8, rx: 1, class: "chart-estimate" }));
    const [estimate, low, high] = [ys[i], lows?.[i], highs?.[i]].map((value) =>
      written(value, { ...options, fixed: true }),
    );
    const spread = hasInterval && readout > 100 ? ` (${low} to ${high})` : "";
    root.append(text(`${estimate}${spread}`, { x: width, y: y + 4, class: "chart-value", "text-anchor": "end" }));
  });
}

function title(words) {
  const element = svg("title");
  element.textContent = words;
  return element;
}
