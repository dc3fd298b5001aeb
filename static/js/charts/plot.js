// Curves on a canvas, drawn by uPlot: bands, one or two value axes, a readout of all series at the pointer or keyboard cursor.
//
// A model is {x: one of X_AXES, xs, series: [{name, unit, format, band, ys, lows, highs, raws, isRight, tone}]}. xs ascend; tone is the
// index of its color, by default its position. In ys, lows, and highs null is a
// gap; undefined is a row where the series was not measured, which its line skips. For smoothed curves, `raws` are drawn too, fainter.
import uPlot from "../../vendor/uplot/uPlot.esm.js";
import { drawLevels, drawWords } from "./annotations.js";
import { GAP, tickLabels, xTicks } from "./axes.js";
import { domain, finite, logTicks, ticks, written } from "./drawing.js";
import { color, onThemeChange, seriesToken } from "./palette.js";
import { lastMeasured, Readout } from "./readout.js";

const FONT_SIZE = 12;
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3], [12, 3], [1, 3]];
const MAX_DOTS = 24;

export class Plot {
  #canvas;
  #model = null;
  #options = {};
  #readout;
  #signature = "";
  #surface = document.createElement("div");
  #uplot = null;
  #width = 0;

  /** Draws into `canvas`, whose width follows its container, until `signal` aborts. */
  constructor(canvas, signal) {
    this.#canvas = canvas;
    this.#surface.className = "chart-surface";
    canvas.append(this.#surface);
    this.#readout = new Readout(canvas, this.#surface, signal, {
      cursorTo: (row) => this.#cursorTo(row),
      open: (row) => this.#options.onOpen?.(row),
    });
    const sizes = new ResizeObserver(() => this.#resize());
    sizes.observe(canvas);
    onThemeChange(() => this.#uplot?.redraw(false), signal);
    signal.addEventListener("abort", () => {
      sizes.disconnect();
      this.#uplot?.destroy();
    });
  }

  /**
   * Draws `model`, or only its changes. Options: label, height, isLog, left and right ({title, unit, format, min, max}), span (the visible
   * x range), marks (x whose points open something), onOpen(row), onZoom([from, to]), group (charts with a shared cursor), reference, isDiagonal.
   */
  show(model, options) {
    this.#model = model;
    this.#options = options;
    this.#surface.setAttribute("aria-label", this.#label());
    this.#surface.classList.toggle("opens", Boolean(options.onOpen));
    if (this.#width) this.#draw();
  }

  /** The x at the cursor; undefined if the readout shows the last row. */
  get cursorX() {
    return this.#model?.xs[this.#readout.row];
  }

  get #isLog() {
    return Boolean(this.#options.isLog) && !this.#model.series.some(({ ys }) => ys.some((y) => y <= 0 && y !== null));
  }

  // Why the requested scale isn't used.
  get #scaleNote() {
    return this.#options.isLog && !this.#isLog ? "linear: some values are not above 0" : "";
  }

  #label() {
    const { label, isLog } = this.#options;
    return isLog ? `${label}, ${this.#scaleNote || "logarithmic"}` : label;
  }

  #resize() {
    const width = this.#canvas.clientWidth;
    if (!width || width === this.#width) return;
    this.#width = width;
    if (this.#uplot) this.#uplot.setSize({ width, height: this.#options.height });
    else if (this.#model) this.#draw();
  }

  #draw() {
    const { series, xs } = this.#model;
    const values = finite(series.flatMap(({ ys }) => ys));
    this.#surface.classList.toggle("empty", !values.length);
    const shape = series.map(({ name, tone, lows, raws, isRight }) => [
      name,
      tone,
      Boolean(lows),
      Boolean(raws),
      isRight,
    ]);
    const { height, left, right } = this.#options;
    const signature = JSON.stringify([shape, height, left, right, this.#isLog, values.length > 0]);
    if (signature !== this.#signature) {
      this.#signature = signature;
      this.#uplot?.destroy();
      this.#uplot = null;
      this.#surface.replaceChildren();
      if (values.length) this.#build();
      else this.#surface.textContent = "No points yet";
    } else {
      this.#uplot?.setData([xs, ...this.#entries().map(({ ys }) => ys)]);
    }
    this.#readout.show(this.#model);
  }

  // uPlot's series for each of ours: the band's ends, the unsmoothed curve, and the curve itself, which is the last of them.
  #entries() {
    const floor = this.#isLog ? Math.min(...finite(this.#model.series.flatMap(({ ys }) => ys))) : Number.NaN;
    const above = (values) => (this.#isLog ? values.map((value) => (value <= 0 ? floor : value)) : values);
    return this.#model.series.flatMap(({ ys, lows, highs, raws }, of) => [
      ...(lows ? [{ of, kind: "low", ys: above(lows) }] : []),
      ...(highs ? [{ of, kind: "high", ys: above(highs) }] : []),
      ...(raws ? [{ of, kind: "raw", ys: raws }] : []),
      { of, kind: "curve", ys },
    ]);
  }

  #build() {
    const entries = this.#entries();
    const isCurve = (_, index) => entries[index - 1]?.kind === "curve";
    const toneOf = (of) => this.#model.series[of].tone ?? of;
    const colorOf = (_, index) => color(seriesToken(toneOf(entries[index - 1].of)));
    const { height, group, onZoom } = this.#options;
    const settings = {
      width: this.#width,
      height,
      padding: [this.#hasHead() ? 22 : 10, 12, 0, null],
      legend: { show: false },
      scales: this.#scales(),
      axes: this.#axes(),
      series: [{}, ...entries.map((entry) => this.#series(entry))],
      bands: entries.flatMap(({ of, kind }, index) =>
        kind === "high" ? [{ series: [index + 1, index], fill: () => color(seriesToken(toneOf(of)), 0.14) }] : [],
      ),
      cursor: {
        y: false,
        drag: { x: Boolean(onZoom), y: false, setScale: false, dist: 8 },
        dataIdx: (self, index, row) => (index ? lastMeasured(self.data[index], row) : row),
        points: {
          show: (self, index) => isCurve(self, index) && document.createElement("span"),
          size: 7,
          width: 1,
          fill: colorOf,
          stroke: () => color("ground"),
        },
        sync: group && {
          key: group,
          setSeries: false,
          scales: ["x", null],
          // Only in the chart under the pointer: onZoom applies the dragged range to all.
          filters: { pub: (type) => type === "mousemove" || type === "mouseleave" },
        },
      },
      hooks: {
        drawAxes: [(self) => drawLevels(self, this.#options)],
        draw: [(self) => drawWords(self, this.#model.x, this.#options, this.#scaleNote)],
        setCursor: [({ cursor }) => this.#readout.at(cursor.left < 0 ? null : cursor.idx)],
        setSelect: [(self) => this.#zoom(self)],
      },
    };
    this.#uplot = new uPlot(settings, [this.#model.xs, ...entries.map(({ ys }) => ys)], this.#surface);
  }

  #hasHead() {
    const { left, right } = this.#options;
    return Boolean(left.unit || left.title || right || this.#scaleNote);
  }

  #scales() {
    const values = (axis) => (_, min, max) => {
      if (min === null) return [0, 1];
      return this.#isLog ? logDomain(min, max) : domain([min, max], axis);
    };
    return {
      x: {
        time: false,
        range: () => {
          const { xs } = this.#model;
          const [from, to] = this.#options.span ?? [xs[0], xs.at(-1)];
          return to > from ? [from, to] : [from, from + 1]; // a single point is drawn where the curve will begin
        },
      },
      left: { distr: this.#isLog ? 3 : 1, range: values(this.#options.left) },
      right: { range: values(this.#options.right ?? {}) },
    };
  }

  #axes() {
    const font = `${FONT_SIZE}px ${getComputedStyle(this.#canvas).fontFamily}`;
    const stroke = () => color("faint");
    // uPlot asks for splits only if one of its own increments fits, and has none above 1e16; any that it accepts will do, as ours don't use it.
    const incrs = (_, __, min, max) => [Math.max(5, max - min)];
    const common = { font, stroke, incrs, ticks: { show: false } };
    const values = (axis, scale, side) => ({
      ...common,
      scale,
      side,
      gap: 8,
      grid: { show: side === 3, stroke: () => color("line"), width: 1 },
      splits: (_, __, min, max) =>
        this.#isLog ? logTicks([min, max]) : ticks([min, max], Math.max(2, Math.round(this.#options.height / 56))),
      values: (_, splits) =>
        this.#isLog ? splits.map((value) => written(value, axis)) : tickLabels(splits, axis.format),
      size: (self, labels) => Math.max(24, ...(labels ?? []).map((label) => this.#widthOf(self, label))) + 10,
    });
    const x = {
      ...common,
      scale: "x",
      size: 24,
      gap: 6,
      grid: { show: false },
      border: { show: true, stroke: () => color("line-strong"), width: 1 },
      splits: (self, _, min, max) => this.#xTicks(self, min, max),
      values: (_, splits) => tickLabels(splits, this.#model.x.format),
    };
    const { left, right } = this.#options;
    return [x, values(left, "left", 3), ...(right ? [values(right, "right", 1)] : [])];
  }

  // The axis title is at its end; a tick label under it would overlap. Labels are centered on their ticks.
  #xTicks(self, min, max) {
    const { x, xs } = this.#model;
    if (xs[0] === xs.at(-1)) return [xs[0]];
    const width = self.bbox.width / devicePixelRatio;
    const widthOf = (label) => this.#widthOf(self, label);
    const free = width - widthOf(x.unit ?? x.name) - GAP;
    return xTicks([min, max], x, { width, free }, widthOf);
  }

  #widthOf(self, label) {
    self.ctx.save();
    self.ctx.font = self.axes[0].font[0];
    const { width } = self.ctx.measureText(label);
    self.ctx.restore();
    return width / devicePixelRatio;
  }

  #series({ of, kind }) {
    const { isRight, tone = of } = this.#model.series[of];
    const common = { scale: isRight ? "right" : "left", points: { show: false, filter: () => null } };
    if (kind === "low" || kind === "high") return { ...common, stroke: "transparent", width: 0 };
    const stroke = () => color(seriesToken(tone));
    if (kind === "raw") return { ...common, stroke, width: 1, alpha: 0.28 };
    return {
      ...common,
      stroke,
      width: 1.5,
      dash: DASHES[tone % DASHES.length],
      points: {
        show: (self, index) => finiteCount(self.data[index]) <= MAX_DOTS,
        filter: (self, index, isShown) => (isShown ? null : lone(self.data[index])),
        size: 5,
        width: 1,
        fill: stroke,
        stroke: () => color("ground"),
        dash: [],
      },
    };
  }

  #zoom(self) {
    const { left, width } = self.select;
    if (width < 8) return;
    self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.#options.onZoom([self.posToVal(left, "x"), self.posToVal(left + width, "x")]);
  }

  #cursorTo(row) {
    if (!this.#uplot) return;
    const left = row === null ? -10 : this.#uplot.valToPos(this.#model.xs[row], "x");
    this.#uplot.setCursor({ left, top: row === null ? -10 : 1 }, true, true);
    this.#readout.at(row); // uPlot picks an arbitrary one of the rows that share a pixel
  }
}

// The range of a logarithmic axis, with some padding.
function logDomain(min, max) {
  const room = (max / min) ** 0.06;
  return min === max ? [min / 2, max * 2] : [min / room, max * room];
}

function finiteCount(values) {
  return finite(values).length;
}

// Points not connected by a line: those between two gaps.
function lone(values) {
  const measured = [...values.keys()].filter((row) => values[row] !== undefined);
  const isGap = (index) => values[measured[index]] === undefined || values[measured[index]] === null;
  return measured.filter((_, index) => !isGap(index) && isGap(index - 1) && isGap(index + 1));
}
