// All charts of a page: in their groups, the pinned ones first, on one x-axis, smoothed alike. The reader's choices are kept in this browser.
import { read, readJson, write } from "../core/storage.js";
import { X_AXES } from "./axes.js";
import { Panel } from "./panel.js";
import { smoothed } from "./run_series.js";

const PINNED = "Pinned";

export class Panels {
  #arrangement = "";
  #charts = [];
  #panels = new Map();
  #place;
  #signal;
  #zoom = null;

  /** `root` holds _curves_bar.html and an element with data-curves-panels, whose content is replaced. */
  constructor(root, signal) {
    this.#signal = signal;
    this.#place = root.querySelector("[data-curves-panels]");
    this.axisSelect = root.querySelector("[data-curves-axis]");
    this.smoothing = root.querySelector("[data-curves-smoothing]");
    this.unzoom = root.querySelector("[data-curves-unzoom]");
    this.smoothing.value = read("curves:smoothing") ?? 0;
    this.#saySmoothing();
    this.axisSelect.addEventListener(
      "change",
      () => {
        write("curves:axis", this.axisSelect.value);
        this.#zoomTo(null);
      },
      { signal },
    );
    this.smoothing.addEventListener(
      "input",
      () => {
        write("curves:smoothing", this.smoothing.value);
        this.#saySmoothing();
        this.#draw();
      },
      { signal },
    );
    this.unzoom.addEventListener(
      "click",
      () => {
        this.#zoomTo(null);
        this.smoothing.focus(); // the button goes
      },
      { signal },
    );
  }

  #saySmoothing() {
    const weight = Number(this.smoothing.value);
    this.smoothing.nextElementSibling.textContent = weight ? weight.toFixed(2) : "off";
  }

  /**
   * Shows `charts`: {key, family, title, group, left, right, curves(axis)}, whose curves are {xs, series, marks, onOpen, noteAt}. `axes` are those of
   * X_AXES that there are; `empty` is what to say where there is no chart.
   */
  show(charts, axes, empty) {
    this.#charts = charts;
    for (const option of this.axisSelect.options) option.disabled = !axes.includes(option.value);
    const wanted = read("curves:axis");
    this.axisSelect.value = axes.includes(wanted) ? wanted : "steps";
    if (charts.length) this.#draw();
    else this.#say(empty);
  }

  #say(words) {
    const paragraph = document.createElement("p");
    paragraph.className = "muted";
    paragraph.textContent = words;
    this.#place.replaceChildren(paragraph);
    this.#place.classList.remove("coming");
    this.#arrangement = "";
  }

  #draw() {
    const pinned = pinnedFamilies();
    this.#arrange(pinned);
    const axis = this.axisSelect.value;
    const weight = Number(this.smoothing.value);
    const all = this.#charts.map((chart) => [chart, chart.curves(axis)]);
    const span = this.#zoom ?? spanOf(all.map(([, { xs }]) => xs));
    for (const [chart, { xs, series, marks, onOpen, noteAt }] of all) {
      const model = { x: X_AXES[axis], xs, series: series.map((one) => smooth(one, weight)), noteAt };
      const options = { span, marks, onOpen, group: "curves", onZoom: (range) => this.#zoomTo(range) };
      this.#panels.get(chart.key).show(chart, model, options, pinned.includes(chart.family));
    }
  }

  // Figures stay what they are and only go where they belong, so nothing is drawn again for it.
  #arrange(pinned) {
    const isPinned = ({ family }) => pinned.includes(family);
    const groups = new Map([[PINNED, this.#charts.filter(isPinned)]]);
    for (const chart of this.#charts.filter((each) => !isPinned(each)))
      groups.set(chart.group, [...(groups.get(chart.group) ?? []), chart]);
    if (!groups.get(PINNED).length) groups.delete(PINNED);
    const arrangement = JSON.stringify([...groups].map(([title, charts]) => [title, charts.map(({ key }) => key)]));
    if (arrangement === this.#arrangement) return;
    this.#arrangement = arrangement;
    const focused = document.activeElement;
    this.#place.classList.remove("coming");
    this.#place.replaceChildren(...[...groups].map(([title, charts]) => this.#section(title, charts)));
    if (this.#place.contains(focused)) focused.focus();
  }

  #section(title, charts) {
    const section = document.createElement("section");
    section.className = "stack near";
    const heading = document.createElement("h2");
    heading.textContent = title;
    const grid = document.createElement("div");
    grid.className = "charts";
    grid.append(...charts.map(({ key }) => this.#panel(key).figure));
    section.append(heading, grid);
    return section;
  }

  #panel(key) {
    if (!this.#panels.has(key))
      this.#panels.set(
        key,
        new Panel(this.#signal, { onPin: (family) => this.#pin(family), onLog: () => this.#draw() }),
      );
    return this.#panels.get(key);
  }

  #pin(family) {
    const pinned = pinnedFamilies();
    const others = pinned.filter((each) => each !== family);
    write("curves:pinned", JSON.stringify(others.length < pinned.length ? others : [...pinned, family]));
    this.#draw();
  }

  #zoomTo(range) {
    this.#zoom = range;
    this.unzoom.hidden = !range;
    this.#draw();
  }
}

function pinnedFamilies() {
  const known = readJson("curves:pinned");
  return Array.isArray(known) ? known : [];
}

// From the first to the last x of any chart: all share it, so that what is above each other happened together.
function spanOf(lists) {
  const known = lists.flatMap((xs) => (xs.length ? [xs[0], xs.at(-1)] : []));
  return known.length ? [Math.min(...known), Math.max(...known)] : null;
}

function smooth(series, weight) {
  if (!weight) return series;
  const { ys, lows, highs } = series;
  return {
    ...series,
    raws: ys,
    ys: smoothed(ys, weight),
    lows: lows && smoothed(lows, weight),
    highs: highs && smoothed(highs, weight),
  };
}
