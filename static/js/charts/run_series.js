// What one run measured, as its page holds it: fetched once, then extended by what is new.
import { request } from "../core/requests.js";

const MOST_ROWS = 2000; // a page that watches for days fetches the thinned curves again

export class RunSeries {
  constructor(url) {
    this.url = url;
    this.#empty();
  }

  #empty() {
    this.steps = [];
    this.seconds = [];
    this.columns = new Map(); // metric -> {ys, lows, highs}, a value for each step; undefined where none was measured
    this.charts = [];
    this.sampled = [];
  }

  get last() {
    return this.steps.at(-1) ?? -1;
  }

  async load(signal) {
    const data = await this.#fetch("", signal);
    this.#empty();
    this.charts = data.charts;
    this.#add(data);
  }

  /** Adds what came after the last step; that step again, because an evaluation reports on a step that is there already. */
  async extend(signal) {
    if (this.last < 0) return this.load(signal);
    const data = await this.#fetch(`?after=${this.last - 1}`, signal);
    const isNew = Object.keys(data.columns).some((metric) => !this.columns.has(metric));
    if (isNew || this.steps.length > MOST_ROWS) return this.load(signal);
    this.#add(data);
  }

  async #fetch(query, signal) {
    return (await request(this.url + query, { signal })).json();
  }

  #add({ steps, seconds, columns, sampled }) {
    const place = steps.map((step, row) => {
      const known = this.steps.lastIndexOf(step);
      if (known >= 0) return known;
      this.steps.push(step);
      this.seconds.push(seconds[row]);
      return this.steps.length - 1;
    });
    for (const [metric, { rows, values, lows, highs }] of Object.entries(columns)) {
      const column = this.columns.get(metric) ?? { ys: [] };
      this.columns.set(metric, column);
      values.forEach((value, index) => {
        const at = place[rows ? rows[index] : index];
        if (column.ys[at] !== undefined) return; // a thinned curve ends in a mean, which its last step alone must not replace
        column.ys[at] = value;
        if (!lows) return;
        column.lows ??= [];
        column.highs ??= [];
        column.lows[at] = lows[index];
        column.highs[at] = highs[index];
      });
    }
    this.sampled = sampled;
  }

  /** The x of each step on an axis of X_AXES; undefined where it is not known. Empty where the run has no such axis. */
  xs(axis) {
    if (axis === "steps" || axis === "seconds") return this[axis];
    const counted = this.columns.get(axis);
    return counted ? runningTotal(counted.ys, this.steps.length) : [];
  }
}

/** Counts that begin at 0 again when a run is resumed, as one that goes on; a step without a count has that of the step before. */
export function runningTotal(counts, length) {
  let base = 0;
  let last;
  return Array.from({ length }, (_, row) => {
    const count = counts[row];
    if (Number.isFinite(count)) {
      if (last !== undefined && count < last) base += last;
      last = count;
    }
    return last === undefined ? undefined : base + last;
  });
}

/** An exponential moving average, without its bias to 0 at the beginning (Kingma and Ba, 2015, section 3). Gaps stay. */
export function smoothed(values, weight) {
  let average = 0;
  let known = 0;
  return Array.from(values, (value) => {
    if (!Number.isFinite(value)) return value;
    average = weight * average + (1 - weight) * value;
    known += 1;
    return average / (1 - weight ** known);
  });
}
