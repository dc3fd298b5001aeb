// All charts of a page, grouped, pinned ones first, with a common x-axis, smoothing, and visible range.
import { bind } from "../core/keys.js";
import { X_AXES } from "./axes.js";
import { Choices } from "./choices.js";
import { Panel } from "./panel.js";
import { smoothed } from "./run_series.js";

const PINNED = "Pinned";

export class Panels {
  #arrangement = "";
  #charts = [];
  #choices = new Choices();
  #panels = new Map();
  #panelList;
  #signal;
  #fullSpan = null; // the x range of all charts, [from, to]

  /** `root` contains _curves_bar.html and an element with data-curves-panels, whose content is replaced. */
  constructor(root, signal) {
    this.#signal = signal;
    this.#panelList = root.querySelector("[data-curves-panels]");
    this.axisSelect = root.querySelector("[data-curves-axis]");
    this.smoothing = root.querySelector("[data-curves-smoothing]");
    this.unzoom = root.querySelector("[data-curves-unzoom]");
    this.smoothing.value = this.#choices.smoothing;
    this.unzoom.hidden = !this.#choices.span;
    this.#saySmoothing();
    const choose = (change) => {
      this.#choices.set(change);
      this.#draw();
    };
    this.axisSelect.addEventListener(
      "change",
      () => {
        this.unzoom.hidden = true;
        choose({ axis: this.axisSelect.value, span: null });
      },
      { signal },
    );
    this.smoothing.addEventListener(
      "input",
      () => {
        this.#saySmoothing();
        choose({ smoothing: Number(this.smoothing.value) });
      },
      { signal },
    );
    this.unzoom.addEventListener(
      "click",
      () => {
        this.#zoomTo(null);
        this.smoothing.focus(); // the button disappears
      },
      { signal },
    );
    const enabled = () => Boolean(this.#fullSpan);
    const key = (keys, label, factor) =>
      bind({ keys, label, group: "Curves", repeat: true, enabled, signal, run: () => this.#zoomBy(factor) });
    key("+", "Zoom in, where the cursor is", 0.5);
    key("-", "Zoom out", 2);
  }

  #saySmoothing() {
    const weight = Number(this.smoothing.value);
    this.smoothing.nextElementSibling.textContent = weight ? weight.toFixed(2) : "off";
  }

  /**
   * Shows `charts`: {key, family, title, group, left, right, curves(axis)}, whose curves are {xs, series, marks, onOpen, noteAt}. `axes` are the
   * available keys of X_AXES; `empty` is shown if there are no charts.
   */
  show(charts, axes, empty) {
    this.#charts = charts;
    for (const option of this.axisSelect.options) option.disabled = !axes.includes(option.value);
    const { axis } = this.#choices;
    this.axisSelect.value = axes.includes(axis) ? axis : "steps";
    if (!charts.length) return this.#say(empty);
    this.#choices.showInAddress();
    this.#draw();
  }

  #say(words) {
    const paragraph = document.createElement("p");
    paragraph.className = "muted";
    paragraph.textContent = words;
    this.#panelList.replaceChildren(paragraph);
    this.#panelList.classList.remove("coming");
    this.#arrangement = "";
  }

  #draw() {
    const { pinned, log, span: zoom } = this.#choices;
    this.#arrange(pinned);
    const axis = this.axisSelect.value;
    const weight = Number(this.smoothing.value);
    const all = this.#charts.map((chart) => [chart, chart.curves(axis)]);
    this.#fullSpan = spanOf(all.map(([, { xs }]) => xs));
    const span = zoom ?? this.#fullSpan;
    for (const [chart, { xs, series, marks, onOpen, noteAt }] of all) {
      const model = { x: X_AXES[axis], xs, series: series.map((one) => smooth(one, weight)), noteAt };
      const options = { span, marks, onOpen, group: "curves", onZoom: (range) => this.#zoomTo(range) };
      const isChosen = { isPinned: pinned.includes(chart.family), isLog: log.includes(chart.family) };
      this.#panels.get(chart.key).show(chart, model, options, isChosen);
    }
  }

  // Figures are only moved to their positions, so nothing is redrawn.
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
    this.#panelList.classList.remove("coming");
    this.#panelList.replaceChildren(...[...groups].map(([title, charts]) => this.#section(title, charts)));
    if (this.#panelList.contains(focused)) focused.focus();
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
        new Panel(this.#signal, {
          onPin: (family) => this.#toggle("pinned", family),
          onLog: (family) => this.#toggle("log", family),
        }),
      );
    return this.#panels.get(key);
  }

  #toggle(choice, family) {
    const chosen = this.#choices[choice];
    const others = chosen.filter((each) => each !== family);
    this.#choices.set({ [choice]: others.length < chosen.length ? others : [...chosen, family] });
    this.#draw();
  }

  #zoomTo(span) {
    this.#choices.set({ span });
    this.unzoom.hidden = !span;
    this.#draw();
  }

  #zoomBy(factor) {
    const [first, last] = this.#fullSpan;
    const [from, to] = this.#choices.span ?? this.#fullSpan;
    const width = (to - from) * factor;
    if (!(width < last - first)) return this.#zoomTo(null);
    const cursor = [...this.#panels.values()].map(({ cursorX }) => cursorX).find(Number.isFinite);
    const middle = cursor ?? (from + to) / 2;
    const start = Math.min(Math.max(middle - width / 2, first), last - width);
    this.#zoomTo([start, start + width].map((x) => Number(x.toPrecision(6))));
  }
}

// From the first to the last x of any chart: they share it, so vertically aligned points are simultaneous.
function spanOf(lists) {
  const ends = lists.flatMap((xs) => (xs.length ? [xs[0], xs.at(-1)] : []));
  return ends.length ? [Math.min(...ends), Math.max(...ends)] : null;
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
