// Where an axis has its ticks and what is printed at them: round values, no label twice, none over another.
import { ticks, written } from "./drawing.js";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const TIME_STEPS = [1, 2, 5, 10, 15, 30, ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE)].concat(
  [1, 2, 3, 6, 12].map((n) => n * HOUR),
  [1, 2, 5, 10, 20, 50, 100].map((n) => n * DAY),
);
const GAP = 14; // pixels between two labels

/** What an x-axis can be: its name, how its values are printed, whether there is nothing between whole numbers. */
export const X_AXES = {
  steps: { name: "Step", format: "number", isWhole: true },
  rollouts: { name: "Rollouts", format: "number", isWhole: true },
  tokens: { name: "Tokens", format: "number", isWhole: true },
  seconds: { name: "Time", format: "seconds", isWhole: false },
};

/** The ticks of an x-axis of `width` pixels: as many as their labels leave room for. `measure(text)` is a label's width. */
export function xTicks([from, to], { format, isWhole }, width, measure) {
  if (!(to > from)) return [from];
  for (let count = Math.max(1, Math.floor(width / 56)); count >= 1; count -= 1) {
    const values = format === "seconds" ? timeTicks([from, to], count) : ticks([from, to], count);
    const shown = isWhole ? values.filter(Number.isInteger) : values; // there is no step 1.5
    const widest = Math.max(0, ...tickLabels(shown, format).map(measure));
    if (shown.length && shown.length * (widest + GAP) <= width) return shown;
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

/** The labels of evenly spaced `values`: as many decimals as tell them apart, and one unit for all. */
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

function unitFor(format, largest, step) {
  if (format === "percent") return [0.01, " %"];
  if (format === "seconds") {
    if (largest < 2 * MINUTE) return [1, " s"];
    if (largest < 2 * HOUR || step < HOUR / 2) return [MINUTE, " min"];
    return largest < 3 * DAY ? [HOUR, " h"] : [DAY, " d"];
  }
  if (largest > 0 && (largest < 1e-3 || largest >= 1e10)) {
    const exponent = Math.floor(Math.log10(largest) + 1e-9);
    return [10 ** exponent, `e${exponent}`];
  }
  if (largest >= 1e6) return [1e6, " M"];
  return largest >= 1e5 ? [1e3, " k"] : [1, ""];
}

// 0.5 needs one, 0.25 two, 5 none.
function decimals(step) {
  for (let digits = 0; digits < 6; digits += 1) {
    const scaled = step * 10 ** digits;
    if (Math.abs(scaled - Math.round(scaled)) < 1e-6 * scaled) return digits;
  }
  return 6;
}

/** One value of an x-axis, in full: "Step 1,200", "Tokens 1.2 M", "Time 2 h 5 min". */
export function xReading({ name, format }, value) {
  if (!Number.isFinite(value)) return "";
  if (format !== "seconds") return `${name} ${written(value, { digits: 6 })}`;
  return `${name} ${duration(value)}`;
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
