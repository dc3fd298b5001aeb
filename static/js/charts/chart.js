// <figure class="chart" data-chart="line|forest|bars"> around a table, which holds the data and is shown by the "Table" button.
//
// Head cells describe the columns: the first is x (or the label), then data-series="name", and for an interval around that series
// data-low="name" and data-high="name"; data-unit adds a unit. A cell's number is its data-value, or else its text; an empty cell is a gap.
// On the figure: data-format="percent|decimal", data-min and data-max fix the value axis, data-reference="0.5" draws a line at a value,
// data-diagonal draws y = x. A button with data-chart-table in the figcaption shows the table.
//
// The curves of training runs come as JSON instead: see panels.js.
import { attach } from "../core/attach.js";

const HEIGHT = { small: 120, tall: 320, "": 200 };

// Imported only by pages with such a chart: other pages needn't load them.
const DRAW = {
  line: async () => linesOf((await import("./plot.js")).Plot),
  forest: async () => redrawn((await import("./forest.js")).drawForest),
  bars: async () => redrawn((await import("./bars.js")).drawBars),
};

/** Parses the table: {x: {name, unit}, labels: [...], xs: [...], series: [{name, unit, ys, lows, highs}]}. */
function readTable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
  const column = (index) => rows.map((row) => numberIn(row.cells[index]));
  const find = (attribute, name) => heads.findIndex((head) => head.dataset[attribute] === name);
  const series = heads.flatMap((head, index) => {
    const name = head.dataset.series;
    if (name === undefined) return [];
    const [low, high] = [find("low", name), find("high", name)];
    return [
      {
        name,
        unit: head.dataset.unit ?? "",
        ys: column(index),
        lows: low < 0 ? null : column(low),
        highs: high < 0 ? null : column(high),
      },
    ];
  });
  return {
    x: { name: heads[0].textContent.trim(), unit: heads[0].dataset.unit ?? "" },
    labels: rows.map((row) => row.cells[0].textContent.trim()),
    xs: column(0),
    series,
  };
}

function numberIn(cell) {
  const text = cell?.dataset.value ?? cell?.textContent.replace(/[\s,%]/g, "") ?? "";
  return text === "" ? null : Number(text);
}

function linesOf(Plot) {
  return (canvas, data, options, signal) => {
    const { format, size = "", min, max, reference, diagonal } = options;
    const { name, unit } = data.x;
    const isWhole = data.xs.every(Number.isInteger);
    const series = data.series.map((one) => ({ ...one, format: format ?? "number" }));
    new Plot(canvas, signal).show(
      { x: { name, unit: unit || name, format: "number", isWhole }, xs: data.xs, series },
      {
        height: HEIGHT[size],
        label: `${series.map((one) => one.name).join(", ")} by ${name}`,
        left: { unit: series[0].unit, format, min, max },
        reference: reference && Number(reference),
        isDiagonal: diagonal !== undefined,
      },
    );
  };
}

function redrawn(draw) {
  return (canvas, data, options, signal) => {
    const sizes = new ResizeObserver(() => canvas.clientWidth && draw(canvas, data, options));
    sizes.observe(canvas);
    signal.addEventListener("abort", () => sizes.disconnect());
  };
}

attach("figure[data-chart]", async (figure, signal) => {
  const table = figure.querySelector("table");
  const draw = await DRAW[figure.dataset.chart]?.();
  if (!table || !draw || signal.aborted) return;
  const canvas = document.createElement("div");
  canvas.className = "chart-canvas";
  figure.querySelector(".chart-canvas")?.remove();
  figure.insertBefore(canvas, table.closest(".table-wrap") ?? table);
  draw(canvas, readTable(table), figure.dataset, signal);
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-chart-table]");
  if (!button) return;
  const isTable = button.closest("figure").classList.toggle("as-table");
  button.setAttribute("aria-pressed", String(isTable));
});
