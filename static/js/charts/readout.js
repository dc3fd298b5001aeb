// Below a chart: the value of each series at the cursor, or else at the end.
import { xReading } from "./axes.js";
import { written } from "./drawing.js";
import { seriesToken } from "./palette.js";

const BY_KEY = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

export class Readout {
  #at = null; // the row shown; null is the last
  #legend = document.createElement("ul");
  #model = null;
  #values = [];
  #where = document.createElement("li");

  /** `surface` becomes focusable: arrow keys call `cursorTo(row)`, Enter and clicks `open(row)`. */
  constructor(canvas, surface, signal, { cursorTo, open }) {
    this.#legend.className = "chart-legend";
    this.#where.className = "where";
    canvas.append(this.#legend);
    surface.tabIndex = 0;
    surface.setAttribute("role", "img");
    const on = (type, run) => surface.addEventListener(type, run, { signal });
    on("click", ({ pointerType }) => this.#at !== null && pointerType !== "touch" && open(this.#at));
    on("focus", () => surface.matches(":focus-visible") && this.#model?.xs.length && this.#step(cursorTo, 0));
    on("blur", () => {
      this.#legend.removeAttribute("aria-live");
      cursorTo(null);
    });
    on("keydown", (event) => {
      if (event.key === "Enter") return open(this.#row);
      if (!(event.key in BY_KEY) || !this.#model?.xs.length) return;
      event.preventDefault();
      this.#step(cursorTo, BY_KEY[event.key]);
    });
  }

  /** The row at the pointer or keyboard cursor, or null. */
  get row() {
    return this.#at;
  }

  get #row() {
    const last = this.#model.xs.length - 1;
    return this.#at === null ? last : Math.min(this.#at, last);
  }

  #step(cursorTo, by) {
    this.#legend.setAttribute("aria-live", "polite");
    cursorTo(Math.min(Math.max(this.#row + by, 0), this.#model.xs.length - 1));
  }

  show(model) {
    const isSame =
      this.#model && JSON.stringify(model.series.map(nameOf)) === JSON.stringify(this.#model.series.map(nameOf));
    this.#model = model;
    if (!isSame) this.#write();
    this.at(this.#at);
  }

  #write() {
    this.#values = [];
    const items = this.#model.series.map(({ name, band, tone }, index) => {
      const item = document.createElement("li");
      item.className = seriesToken(tone ?? index);
      if (band) item.title = `Band: ${band}`;
      const value = document.createElement("span");
      value.className = "value";
      this.#values.push(value);
      item.append(name, " ", value);
      return item;
    });
    this.#legend.replaceChildren(...items, this.#where);
  }

  /** Shows a row; null shows the last. */
  at(row) {
    this.#at = row ?? null;
    if (!this.#model) return;
    const { x, xs, series, noteAt } = this.#model;
    series.forEach((one, index) => {
      this.#values[index].textContent = valueAt(one, lastMeasured(one.ys, this.#row));
    });
    this.#where.textContent = xs.length ? xReading(x, xs[this.#row]) + (noteAt?.(this.#row) ?? "") : "";
  }
}

/** The row of the last measurement up to `row`, which is `row` itself if the series was measured there. */
export function lastMeasured(values, row) {
  let at = row;
  while (at > 0 && values[at] === undefined) at -= 1;
  return at;
}

const nameOf = ({ name, band, tone }) => [name, band, tone];

function valueAt({ ys, lows, highs, raws, unit, format }, row) {
  const value = written(ys[row], { format, digits: 4 });
  const raw = Number.isFinite(raws?.[row]) ? `, raw ${written(raws[row], { format, digits: 4 })}` : "";
  const ends = Number.isFinite(lows?.[row])
    ? ` (${written(lows[row], { format })} to ${written(highs[row], { format })})`
    : "";
  return `${value}${unit ? ` ${unit}` : ""}${raw}${ends}`;
}
