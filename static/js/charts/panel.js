// A single chart: its figure, its buttons, its curves or their table.
import { Plot } from "./plot.js";
import { showTable } from "./table.js";

const HEIGHT = 168;

export class Panel {
  #asTable;
  #chart = null;
  #log;
  #plot;
  #shown = null;
  #title;

  /** `onPin(family)` and `onLog(family)` are called on a click on Pin or Log. */
  constructor(signal, { onPin, onLog }) {
    this.figure = document.getElementById("panel-template").content.firstElementChild.cloneNode(true);
    const find = (selector) => this.figure.querySelector(selector);
    this.#title = find(".panel-title");
    this.#log = find("[data-panel-log]");
    this.#asTable = find("[data-panel-table]");
    this.pin = find("[data-panel-pin]");
    const canvas = document.createElement("div");
    canvas.className = "chart-canvas";
    find("figcaption").after(canvas);
    this.#plot = new Plot(canvas, signal);
    this.#log.addEventListener("click", () => onLog(this.#chart.family));
    this.#asTable.addEventListener("click", () => this.#toggleTable());
    this.pin.addEventListener("click", () => onPin(this.#chart.family));
  }

  /** The x at the pointer or keyboard cursor; undefined if there is none. */
  get cursorX() {
    return this.#plot.cursorX;
  }

  #toggleTable() {
    const isTable = this.figure.classList.toggle("as-table");
    this.#asTable.setAttribute("aria-pressed", String(isTable));
    this.#showTable();
  }

  #showTable() {
    if (this.figure.classList.contains("as-table"))
      showTable(this.figure.querySelector(".table-wrap"), this.#shown.model);
  }

  /** Draws `chart`: {key, family, title, left, right} with the curves of `model`; `options` are passed to the plot. */
  show(chart, model, options, { isPinned, isLog }) {
    this.#chart = chart;
    this.#shown = { model, options, isLog };
    this.figure.id = `chart-${chart.key}`;
    this.#title.textContent = chart.title;
    this.#title.title = chart.title;
    for (const button of [this.#log, this.#asTable, this.pin]) button.setAttribute("aria-description", chart.title);
    this.#log.hidden = chart.left.format === "percent" || Boolean(chart.right);
    this.pin.setAttribute("aria-pressed", String(isPinned));
    this.pin.title = isPinned ? "Move back to its group" : "Show first, on every run";
    this.redraw();
  }

  redraw() {
    const { left, right, title } = this.#chart;
    const { model, options } = this.#shown;
    const isLog = !this.#log.hidden && this.#shown.isLog;
    this.#log.setAttribute("aria-pressed", String(isLog));
    const label = `${title}: ${model.series.map(({ name }) => name).join(", ")} by ${model.x.name.toLowerCase()}`;
    this.#plot.show(model, {
      ...options,
      height: HEIGHT,
      label,
      isLog,
      left: bounded(left),
      right: right && bounded(right),
    });
    this.#showTable();
  }
}

// A share is always between 0 and 1.
function bounded(axis) {
  return axis.format === "percent" ? { ...axis, min: 0, max: 1 } : axis;
}
