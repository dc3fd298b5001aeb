// A run's measurements in the page: fetched once, then extended incrementally.
import { request } from "../core/requests.js";

const MAX_ROWS = 2000; // a page that is open for days fetches the thinned curves again

export class RunSeries {
  constructor(url) {
    this.url = url;
    this.#empty();
  }

  #empty() {
    this.steps = [];
    this.seconds = [];
    this.columns = new Map(); // metric -> {ys, lows, highs}, one value per step; undefined where it wasn't measured
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

  /** Adds rows from the last step on, including that step, since an evaluation reports on an existing step. */
  async extend(signal) {
    if (this.last < 0) return this.load(signal);
    const data = await this.#fetch(`?after=${this.last - 1}`, signal);
    const isNew = Object.keys(data.columns).some((metric) => !this.columns.has(metric));
    if (isNew || this.steps.length > MAX_ROWS) return this.load(signal);
    this.#add(data);
  }

  async #fetch(query, signal) {
    return (await request(this.url + query, { signal })).json();
  }

  #add({ steps, seconds, columns, sampled }) {
    const targets = steps.map((step, row) => {
      const existing = this.steps.lastIndexOf(step);
      if (existing >= 0) return existing;
      this.steps.push(step);
      this.seconds.push(seconds[row]);
      return this.steps.length - 1;
    });
    for (const [metric, { rows, values, lows, highs }] of Object.entries(columns)) {
      const column = this.columns.get(metric) ?? { ys: [] };
      this.columns.set(metric, column);
      values.forEach((value, index) => {
        const at = targets[rows ? rows[index] : index];
        if (column.ys[at] !== undefined) return; // a thinned curve ends in a mean, which mustn't be replaced by its last step alone
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

  /** The x of each step on an axis of X_AXES; undefined if unknown. Empty if the run has no such axis. */
  xs(axis) {
    if (axis === "steps" || axis === "seconds") return this[axis];
    const counted = this.columns.get(axis);
    return counted ? runningTotal(counted.ys, this.steps.length) : [];
  }
}

/** Makes counts that restart at 0 when a run is resumed continuous; a step without a count gets the previous step's. */
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

/** An exponential moving average with bias correction (Kingma and Ba, 2015, section 3). Gaps stay. */
export function smoothed(values, weight) {
  let average = 0;
  let count = 0;
  return Array.from(values, (value) => {
    if (!Number.isFinite(value)) return value;
    average = weight * average + (1 - weight) * value;
    count += 1;
    return average / (1 - weight ** count);
  });
}
