// A chart's values as a table.
import { xReading } from "./axes.js";
import { written } from "./drawing.js";

/** Fills `container` with the table of a model (see plot.js). */
export function showTable(container, { x, xs, series }) {
  const table = document.createElement("table");
  table.className = "table";
  const head = table.createTHead().insertRow();
  addHead(head, x.name);
  for (const { name, unit, lows, band } of series) {
    addHead(head, unit ? `${name}, ${unit}` : name);
    if (lows) addHead(head, `from (${band})`);
    if (lows) addHead(head, "to");
  }
  const body = table.createTBody();
  xs.forEach((at, row) => {
    const cells = body.insertRow();
    cells.insertCell().textContent = xReading(x, at).slice(x.name.length + 1);
    for (const { ys, lows, highs, format } of series)
      for (const values of lows ? [ys, lows, highs] : [ys])
        cells.insertCell().textContent = values[row] === undefined ? "" : written(values[row], { format, digits: 5 });
  });
  container.replaceChildren(table);
}

function addHead(row, words) {
  const cell = document.createElement("th");
  cell.scope = "col";
  cell.textContent = words;
  row.append(cell);
}
