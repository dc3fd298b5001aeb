// Shared by the charts: SVG elements, scales, round ticks, number formats.

const SVG = "http://www.w3.org/2000/svg";

export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** Replaces the content of `canvas` with an SVG of its size, in pixels. */
export function surface(canvas, height, label) {
  const width = canvas.clientWidth;
  const root = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  canvas.replaceChildren(root);
  return { root, width };
}

/** Finite values only. */
export function finite(...lists) {
  return lists.flat().filter(Number.isFinite);
}

/** Maps [from, to] to [start, end]. */
export function scale([from, to], [start, end]) {
  const span = to - from || 1;
  return (value) => start + ((value - from) / span) * (end - start);
}

/** Round values in [from, to], about `count` of them: steps of 1, 2, 5 or 10 times a power of ten. */
export function ticks([from, to], count) {
  const raw = (to - from) / Math.max(1, count);
  if (!(raw > 0)) return [from];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw * 0.75);
  const first = Math.ceil(from / step - 1e-9);
  const last = Math.floor(to / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** Powers of ten in [from, to], which must be positive. */
export function logTicks([from, to]) {
  const [first, last] = [Math.ceil(Math.log10(from)), Math.floor(Math.log10(to))];
  if (last - first < 1) return ticks([from, to], 3);
  return Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
}

/** The domain of `values` with some padding, widened to the given minimum and maximum. */
export function domain(values, { min, max, room = 0.06 } = {}) {
  const numbers = finite(values);
  let low = numbers.length ? Math.min(...numbers) : 0;
  let high = numbers.length ? Math.max(...numbers) : 1;
  const isFlat = high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high)); // up to rounding errors
  if (isFlat) [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  const extra = (high - low) * room;
  return [numberOr(min, low - extra), numberOr(max, high + extra)];
}

function numberOr(text, otherwise) {
  return text === undefined || text === "" ? otherwise : Number(text);
}

/** A number for an axis or a readout: 0.00031, −12.4, 1,200, 62 %; a coefficient ("decimal") as −0.62. `fixed`: for aligned shares, 62.0 %. */
export function written(value, options) {
  return Number.isFinite(value) ? plain(value, options).replaceAll("-", "−") : "–";
}

function plain(value, { format = "number", digits = 3, fixed = false } = {}) {
  if (format === "decimal")
    return value.toLocaleString(undefined, {
      minimumFractionDigits: 2,
      maximumFractionDigits: 2,
      signDisplay: "negative",
    });
  if (format === "percent")
    return `${(value * 100).toLocaleString(undefined, { minimumFractionDigits: fixed ? 1 : 0, maximumFractionDigits: 1 })} %`;
  if (value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e7))
    return Number(value.toPrecision(digits)).toExponential().replace("e+", "e");
  return value.toLocaleString(undefined, {
    maximumSignificantDigits: Math.max(digits, Math.abs(value) >= 1 ? String(Math.trunc(value)).length : 1),
  });
}

export function text(words, attributes) {
  const element = svg("text", attributes);
  element.textContent = words;
  return element;
}
