// Axis ticks and their labels: round values, without duplicate or overlapping labels.
import { ticks, written } from "./drawing.js";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const TIME_STEPS = [1, 2, 5, 10, 15, 30, ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE)].concat(
  [1, 2, 3, 6, 12].map((n) => n * HOUR),
  [1, 2, 5, 10, 20, 50, 100].map((n) => n * DAY),
);
export const GAP = 14; // pixels between two labels

/** The kinds of x-axis: name, format of values, whether values are integers. */
export const X_AXES = {
  steps: { name: "Step", format: "number", isWhole: true },
  rollouts: { name: "Rollouts", format: "number", isWhole: true },
  tokens: { name: "Tokens", format: "number", isWhole: true },
  seconds: { name: "Time", format: "seconds", isWhole: false },
};

/**
 * The ticks of an x-axis of `width` pixels, of which the first `free` are available for labels: as many as fit. `measure(text)` returns a
 * label's width; labels are centered on their ticks.
 */
export function xTicks([from, to], { format, isWhole }, { width, free }, measure) {
  if (!(to > from)) return [from];
  const toPixels = (value) => ((value - from) / (to - from)) * width;
  for (let count = Math.max(1, Math.floor(width / 56)); count >= 1; count -= 1) {
    const values = format === "seconds" ? timeTicks([from, to], count) : ticks([from, to], count);
    const fits = (value, half) => (!isWhole || Number.isInteger(value)) && toPixels(value) + half <= free;
    const candidates = values.filter((value) => fits(value, 0)); // there is no step 1.5
    const widest = Math.max(0, ...tickLabels(candidates, format).map(measure));
    const shown = candidates.filter((value) => fits(value, widest / 2));
    const spacing = shown.length > 1 ? toPixels(shown[1]) - toPixels(shown[0]) : width;
    if (shown.length && spacing >= widest + GAP) return shown;
  }
  return [from];
}

function timeTicks([from, to], count) {
  const raw = (to - from) / count;
  if (raw < 1) return ticks([from, to], count);
  const step = TIME_STEPS.find((size) => size >= raw * 0.75) ?? TIME_STEPS.at(-1);
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.floor(to / step) - first + 1 }, (_, i) => (first + i) * step);
}

/** The labels of evenly spaced `values`: as many decimals as needed to distinguish them, and one unit for all. */
export function tickLabels(values, format = "number") {
  const largest = Math.max(...values.map(Math.abs), 0);
  const step = values.length > 1 ? Math.abs(values[1] - values[0]) : largest || 1;
  const [size, unit] = unitFor(format, largest, step);
  const digits = decimals(step / size);
  return values.map((value) => {
    if (value === 0 && format !== "percent") return unit.startsWith("e") || unit === "" ? "0" : `0${unit}`;
    const number = (value / size).toLocaleString(undefined, {
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
    });
    return `${number}${unit}`.replaceAll("-", "−");
  });
}

const UNITS = [
  [1e12, " T"],
  [1e9, " B"],
  [1e6, " M"],
  [1e3, " k"],
];

function unitFor(format, largest, step) {
  if (format === "percent") return [0.01, " %"];
  if (format === "seconds") {
    if (largest < 2 * MINUTE) return [1, " s"];
    if (largest < 2 * HOUR || step < HOUR / 2) return [MINUTE, " min"];
    return largest < 3 * DAY ? [HOUR, " h"] : [DAY, " d"];
  }
  if (largest > 0 && (largest < 1e-3 || largest >= 1e15)) {
    const exponent = Math.floor(Math.log10(largest) + 1e-9);
    return [10 ** exponent, `e${exponent}`];
  }
  // Values that differ by less than a hundredth of a unit are easier to distinguish in full.
  return UNITS.find(([size]) => largest >= size && largest >= 1e5 && step >= size / 100) ?? [1, ""];
}

const MAX_DECIMALS = 12; // domain() treats smaller differences as equal

// 0.5 needs one decimal, 0.25 two, 5 none.
function decimals(step) {
  for (let digits = 0; digits < MAX_DECIMALS; digits += 1) {
    const scaled = step * 10 ** digits;
    if (Math.abs(scaled - Math.round(scaled)) < 1e-6 * scaled) return digits;
  }
  return MAX_DECIMALS;
}

/** One value of an x-axis, in full: "Step 1,200", "Tokens 1,204,511", "Time 2 h 5 min". */
export function xReading({ name, format, isWhole }, value) {
  if (!Number.isFinite(value)) return "";
  if (format === "seconds") return `${name} ${duration(value)}`;
  return `${name} ${isWhole ? value.toLocaleString() : written(value, { digits: 6 })}`;
}

function duration(seconds) {
  const parts = [];
  let rest = Math.round(seconds);
  for (const [size, unit] of [
    [DAY, "d"],
    [HOUR, "h"],
    [MINUTE, "min"],
    [1, "s"],
  ]) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count) parts.push(`${count} ${unit}`);
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}
