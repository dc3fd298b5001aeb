// Curves: axes with units, an optional band around each, a readout at the pointer (or the arrow keys).
import { domain, finite, logTicks, scale, surface, svg, text, ticks, written } from "./drawing.js";

const HEIGHT = { small: 120, tall: 320, "": 200 };
const LINEAR = "linear: some values are not above 0";
const EDGE = { top: 10, right: 12, bottom: 26, left: 52 };

export function drawLine(canvas, { x, xs, series }, options) {
  const height = HEIGHT[options.size ?? ""] ?? HEIGHT[""];
  const asked = options.scale === "log";
  const log = asked && !finite(series.flatMap(({ ys }) => ys)).some((value) => value <= 0);
  const label = `${series.map(({ name }) => name).join(", ")} by ${x.name}`;
  const { root, width } = surface(canvas, height, asked ? `${label}, ${log ? "logarithmic" : LINEAR}` : label);
  const values = finite(series.flatMap(({ ys, lows, highs }) => [...ys, ...(lows ?? []), ...(highs ?? [])])).filter(
    (value) => !log || value > 0,
  );
  if (!values.length || !finite(xs).length) {
    root.append(text("No points yet", { x: width / 2, y: height / 2, class: "chart-empty", "text-anchor": "middle" }));
    return;
  }
  const [first, last] = [Math.min(...finite(xs)), Math.max(...finite(xs))];
  const xDomain = first === last ? [first, first + 1] : [first, last]; // a lone point stands where the curve will begin
  const yDomain = log ? [Math.min(...values), Math.max(...values)] : domain(values, options);
  const toX = scale(xDomain, [EDGE.left, width - EDGE.right]);
  // The unit, and why a scale is not the one asked for, stand above the curves, in a line of their own.
  const top = EDGE.top + (unitOf(series) || asked !== log ? 10 : 0);
  const toY = scale(yDomain, [height - EDGE.bottom, top], { log });
  drawAxes(root, { toX, toY, xDomain, yDomain, width, height, log, options, x, xs, series, isLone: first === last });
  if (asked !== log)
    root.append(text(LINEAR, { x: width - EDGE.right, y: EDGE.top, class: "chart-unit", "text-anchor": "end" }));
  if (options.reference) drawLevel(root, toY(Number(options.reference)), width);
  if (options.diagonal !== undefined) {
    const [from, to] = [Math.max(xDomain[0], yDomain[0]), Math.min(xDomain[1], yDomain[1])];
    root.append(svg("line", { x1: toX(from), y1: toY(from), x2: toX(to), y2: toY(to), class: "chart-reference" }));
  }
  for (const [index, one] of series.entries())
    drawSeries(root, one, xs, { toX, toY, index, width, log, bottom: yDomain[0] });
  if (options.marks) drawMarks(root, options.marks.split(" ").map(Number), { toX, xDomain, height });
  const labels = drawLegend(canvas, series);
  addReadout(root, labels, { x, xs, series, toX, toY, height, options });
}

function drawAxes(root, { toX, toY, xDomain, yDomain, width, height, log, options, x, xs, series, isLone }) {
  const bottom = height - EDGE.bottom;
  const levels = log ? logTicks(yDomain) : ticks(yDomain, Math.max(2, Math.round(height / 56)));
  for (const value of levels) {
    const y = Math.round(toY(value)) + 0.5;
    root.append(
      svg("line", { x1: EDGE.left, y1: y, x2: width - EDGE.right, y2: y, class: "chart-grid" }),
      text(written(value, options), { x: EDGE.left - 8, y: y + 4, class: "chart-tick", "text-anchor": "end" }),
    );
  }
  root.append(
    svg("line", { x1: EDGE.left, y1: bottom + 0.5, x2: width - EDGE.right, y2: bottom + 0.5, class: "chart-axis" }),
  );
  const name = x.unit || x.name;
  const whole = finite(xs).every(Number.isInteger); // there is no step 1.5
  const marks = isLone
    ? [xDomain[0]]
    : ticks(xDomain, Math.max(2, Math.round(width / 110))).filter((value) => !whole || Number.isInteger(value));
  for (const value of marks) {
    const at = toX(value);
    // The unit takes the end of the axis; a tick under it would be printed over.
    if (at > width - EDGE.right - 12 - name.length * 6 && value !== xDomain[0]) continue;
    root.append(
      text(written(value), {
        x: at,
        y: bottom + 18,
        class: "chart-tick",
        "text-anchor": at < EDGE.left + 8 ? "start" : "middle",
      }),
    );
  }
  root.append(text(name, { x: width - EDGE.right, y: bottom + 18, class: "chart-unit", "text-anchor": "end" }));
  const unit = unitOf(series);
  if (unit) root.append(text(unit, { x: EDGE.left, y: EDGE.top, class: "chart-unit" }));
}

function unitOf(series) {
  return series.find((one) => one.unit)?.unit;
}

function drawLevel(root, y, width) {
  root.append(svg("line", { x1: EDGE.left, y1: y, x2: width - EDGE.right, y2: y, class: "chart-reference" }));
}

// One for each pixel at most.
function drawMarks(root, xs, { toX, xDomain, height }) {
  const y = height - EDGE.bottom;
  const pixels = new Set(xs.filter((x) => x >= xDomain[0] && x <= xDomain[1]).map((x) => Math.round(toX(x))));
  root.append(svg("path", { d: [...pixels].map((x) => `M${x} ${y - 4}v4`).join(""), class: "chart-marks" }));
  root.classList.add("opens");
}

function drawSeries(root, { ys, lows, highs, sparse }, xs, { toX, toY, index, width, log, bottom }) {
  const shown = (value) => Number.isFinite(value) && (!log || value > 0);
  const points = thin(
    xs.flatMap((at, i) =>
      Number.isFinite(at) && (!sparse || Number.isFinite(ys[i]))
        ? [{ at, y: ys[i], low: lows?.[i], high: highs?.[i] }]
        : [],
    ),
    width,
  );
  const className = `series-${(index % 6) + 1}`;
  if (lows && highs) {
    const band = points.filter(({ low, high }) => Number.isFinite(low) && shown(high));
    const edge = [
      ...band.map(({ at, high }) => [at, high]),
      ...band.reverse().map(({ at, low }) => [at, shown(low) ? low : bottom]),
    ];
    root.append(
      svg("polygon", {
        points: edge.map(([at, y]) => `${toX(at).toFixed(1)},${toY(y).toFixed(1)}`).join(" "),
        class: `chart-band ${className}`,
      }),
    );
  }
  let path = "";
  let pen = "M";
  for (const { at, y } of points) {
    if (shown(y)) path += `${pen}${toX(at).toFixed(1)} ${toY(y).toFixed(1)}`;
    pen = shown(y) ? "L" : "M";
  }
  root.append(svg("path", { d: path, class: `chart-line ${className}` }));
  const drawn = points.filter(({ y }) => shown(y));
  if (drawn.length <= 24)
    for (const { at, y } of drawn)
      root.append(svg("circle", { cx: toX(at), cy: toY(y), r: 2, class: `chart-dot ${className}` }));
}

// More points than pixels: of each column of pixels its lowest and highest, so that no spike is lost.
function thin(points, width) {
  if (points.length <= 2 * width) return points;
  const size = Math.ceil(points.length / width);
  const kept = [];
  for (let start = 0; start < points.length; start += size) {
    const part = points.slice(start, start + size).filter(({ y }) => Number.isFinite(y));
    if (!part.length) continue;
    const low = part.reduce((a, b) => (b.y < a.y ? b : a));
    const high = part.reduce((a, b) => (b.y > a.y ? b : a));
    kept.push(...(low === high ? [low] : low.at < high.at ? [low, high] : [high, low]));
  }
  return kept;
}

function drawLegend(canvas, series) {
  const list = document.createElement("ul");
  list.className = "chart-legend";
  const labels = series.map(({ name }, index) => {
    const item = document.createElement("li");
    item.className = `series-${(index % 6) + 1}`;
    const value = document.createElement("span");
    value.className = "value";
    item.append(name, value);
    list.append(item);
    return value;
  });
  const where = document.createElement("li");
  where.className = "where";
  list.append(where);
  canvas.append(list);
  return { values: labels, where };
}

// The row of the last measurement up to the row at `position` of `order`.
function lastMeasured(ys, order, position) {
  while (position > 0 && !Number.isFinite(ys[order[position]])) position -= 1;
  return order[position];
}

function addReadout(root, { values, where }, { x, xs, series, toX, toY, height, options }) {
  const order = xs
    .map((_, i) => i)
    .filter((i) => Number.isFinite(xs[i]))
    .sort((a, b) => xs[a] - xs[b]);
  const cursor = svg("line", { y1: EDGE.top, y2: height - EDGE.bottom, class: "chart-cursor", visibility: "hidden" });
  const dots = series.map((_, index) =>
    svg("circle", { r: 3, class: `chart-dot series-${(index % 6) + 1}`, visibility: "hidden" }),
  );
  root.append(cursor, ...dots);
  let at = order.length - 1;

  function show(position, visible) {
    at = Math.min(Math.max(position, 0), order.length - 1);
    const i = order[at];
    cursor.setAttribute("x1", toX(xs[i]));
    cursor.setAttribute("x2", toX(xs[i]));
    cursor.setAttribute("visibility", visible ? "visible" : "hidden");
    series.forEach(({ ys, lows, highs, unit, sparse }, index) => {
      const i = sparse ? lastMeasured(ys, order, at) : order[at];
      const known = Number.isFinite(ys[i]);
      if (known) {
        dots[index].setAttribute("cx", toX(xs[i]));
        dots[index].setAttribute("cy", toY(ys[i]));
      }
      dots[index].setAttribute("visibility", visible && known ? "visible" : "hidden");
      const spread =
        lows && highs && Number.isFinite(lows[i])
          ? ` (${written(lows[i], options)} to ${written(highs[i], options)})`
          : "";
      values[index].textContent = `${written(ys[i], { ...options, digits: 4 })}${unit ? ` ${unit}` : ""}${spread}`;
    });
    where.textContent = `${x.name} ${written(xs[i], { digits: 6 })}`;
  }

  function nearest(clientX) {
    const value = toX.invert(clientX - root.getBoundingClientRect().left);
    let low = 0;
    let high = order.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (xs[order[middle]] < value) low = middle + 1;
      else high = middle;
    }
    return low > 0 && value - xs[order[low - 1]] < xs[order[low]] - value ? low - 1 : low;
  }

  const open = () =>
    options.marks && root.dispatchEvent(new CustomEvent("chart:open", { bubbles: true, detail: { x: xs[order[at]] } }));
  root.addEventListener("click", ({ clientX }) => {
    show(nearest(clientX), true);
    open();
  });
  root.setAttribute("tabindex", "0");
  root.addEventListener("pointermove", ({ clientX }) => show(nearest(clientX), true));
  root.addEventListener("pointerleave", () => show(order.length - 1, false));
  root.addEventListener("focus", () => show(at, root.matches(":focus-visible")));
  root.addEventListener("blur", () => show(order.length - 1, false));
  root.addEventListener("keydown", (event) => {
    if (event.key === "Enter") return open();
    const by = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    show(at + by, true);
  });
  show(order.length - 1, false);
}
