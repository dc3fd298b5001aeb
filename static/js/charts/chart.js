// <figure class="chart" data-chart="line|forest|bars"> around a table: the table is the data, and is what "Table" shows.
//
// Head cells say what a column is: the first is x (or the label), then data-series="name", and for an interval around that series
// data-low="name" and data-high="name"; data-unit adds a unit. A cell's number is its data-value, else its text; an empty
// cell is a gap, or with data-sparse on the head (a curve measured now and then) only a row without a measurement. Rows that arrive later (a live page) are drawn when they arrive.
// On the figure: data-format="percent|number", data-min and data-max fix the scale of values, data-scale="log",
// data-reference="0.5" draws a line at a value, data-diagonal draws y = x. On the figure or around it: data-marks="10 20" marks these x; then
// a click, or Enter, on a point sends `chart:open` with {x} up from it.
//
// In the figcaption a button with data-chart-table shows the table, and one with data-chart-log="loss" the curves on a logarithmic scale. The latter
// is remembered for every chart of that name, on whatever page.
import { attach } from "../core/attach.js";
import { read, write } from "../core/storage.js";

// Fetched by the pages that have such a chart: every other page is ready without them.
const DRAW = {
  line: async () => (await import("./line.js")).drawLine,
  forest: async () => (await import("./forest.js")).drawForest,
  bars: async () => (await import("./bars.js")).drawBars,
};

/** Reads the table: {x: {name, unit}, labels: [...], xs: [...], series: [{name, unit, ys, lows, highs}]}. */
function readTable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
  const column = (index) => rows.map((row) => numberIn(row.cells[index]));
  const find = (attribute, name) => heads.findIndex((head) => head.dataset[attribute] === name);
  const series = heads.flatMap((head, index) => {
    const name = head.dataset.series;
    if (name === undefined) return [];
    const [low, high] = [find("low", name), find("high", name)];
    const sparse = head.dataset.sparse !== undefined;
    return [
      {
        name,
        sparse,
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
  return text === "" ? NaN : Number(text);
}

attach("figure[data-chart]", async (figure, signal) => {
  const table = figure.querySelector("table");
  const draw = await DRAW[figure.dataset.chart]?.();
  if (!table || !draw || signal.aborted) return;
  const canvas =
    figure.querySelector(".chart-canvas") ??
    figure.insertBefore(document.createElement("div"), table.closest(".table-wrap") ?? table);
  canvas.className = "chart-canvas";
  let frame = 0;
  const redraw = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(
      () =>
        canvas.clientWidth &&
        draw(canvas, readTable(table), { ...figure.dataset, marks: figure.closest("[data-marks]")?.dataset.marks }),
    );
  };
  const sizes = new ResizeObserver(redraw);
  sizes.observe(canvas);
  const rows = new MutationObserver(redraw);
  rows.observe(table, { childList: true, subtree: true, characterData: true });
  rows.observe(figure, { attributeFilter: ["data-scale"] });
  signal.addEventListener("abort", () => {
    sizes.disconnect();
    rows.disconnect();
    cancelAnimationFrame(frame);
  });
});

attach("[data-chart-log]", (button) => scaleBy(button, read(`log:${button.dataset.chartLog}`) === "yes"));

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-chart-table], [data-chart-log]");
  if (!button) return;
  const pressed = button.getAttribute("aria-pressed") !== "true";
  const name = button.dataset.chartLog;
  if (name === undefined) {
    button.closest("figure").classList.toggle("as-table", pressed);
    button.setAttribute("aria-pressed", String(pressed));
    return;
  }
  write(`log:${name}`, pressed ? "yes" : null);
  for (const each of document.querySelectorAll("[data-chart-log]"))
    if (each.dataset.chartLog === name) scaleBy(each, pressed);
});

function scaleBy(button, log) {
  button.closest("figure").dataset.scale = log ? "log" : "";
  button.setAttribute("aria-pressed", String(log));
}
