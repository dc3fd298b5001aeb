// The curves of runs as charts for panels.js: all metrics of one run, or each metric across several.

const UNSEEN = { lows: undefined, highs: undefined };

/** The charts of a run. `open(step)` opens the rollouts of a step, if the run kept some. */
export function chartsOf(run, open) {
  return run.charts.map((chart) => ({
    ...chart,
    family: chart.key,
    curves(axis) {
      const columns = chart.series.map(({ metric }) => run.columns.get(metric) ?? { ys: [] });
      const xs = run.xs(axis);
      const rows = rowsOf(xs, columns);
      const steps = rows.map((row) => run.steps[row]);
      const sampled = new Set(run.sampled);
      return {
        xs: rows.map((row) => xs[row]),
        series: chart.series.map((series, index) => ({
          ...described(chart, series),
          ...picked(columns[index], rows),
          isRight: series.is_right,
        })),
        marks: sampled.size ? rows.filter((row) => sampled.has(run.steps[row])).map((row) => xs[row]) : [],
        onOpen: sampled.size ? (row) => open(steps[row]) : undefined,
        noteAt: (row) => (sampled.has(steps[row]) ? ", rollouts kept" : ""),
      };
    },
  }));
}

/** The charts of several runs, [{name, run}]: one for each metric that any of them measured, with a curve per run. */
export function overlaysOf(runs) {
  const merged = [];
  for (const { run } of runs) {
    let at = 0; // all runs have their charts in the same order; additional ones are inserted at their position
    for (const chart of run.charts.filter(({ right }) => !right))
      for (const series of chart.series) {
        const existing = merged.findIndex(({ metric }) => metric === series.metric);
        if (existing < 0) merged.splice(at, 0, { metric: series.metric, chart, series });
        at = (existing < 0 ? at : existing) + 1;
      }
  }
  return merged.map(({ metric, chart, series }) => ({
    ...chart,
    key: metric.replaceAll("/", "-"),
    family: chart.key,
    title: merged.some((other) => other.metric !== metric && other.chart.key === chart.key)
      ? `${chart.title}: ${series.name}`
      : chart.title,
    curves: (axis) => overlay(runs, metric, axis, { ...described(chart, series) }),
  }));
}

// On the union of all runs' x values, since uPlot has one x for all series. Lines continue across x values that a run lacks.
function overlay(runs, metric, axis, description) {
  const parts = runs.map(({ name, run }) => {
    const column = run.columns.get(metric) ?? { ys: [] };
    const xs = run.xs(axis);
    const rows = rowsOf(xs, [column]);
    return { name, xs: rows.map((row) => xs[row]), ...picked(column, rows) };
  });
  const xs = [...new Set(parts.flatMap((part) => part.xs))].sort((a, b) => a - b);
  const rowOf = new Map(xs.map((x, row) => [x, row]));
  const spread = (part, values) => {
    const all = new Array(xs.length).fill(undefined);
    part.xs.forEach((x, index) => {
      all[rowOf.get(x)] = values[index];
    });
    return all;
  };
  return {
    xs,
    series: parts.flatMap((part, tone) =>
      part.xs.length ? [{ ...description, ...UNSEEN, name: part.name, tone, ys: spread(part, part.ys) }] : [],
    ),
    marks: [],
  };
}

function described({ left, right }, { name, band, is_right }) {
  const { unit, format } = is_right ? right : left;
  return { name, band, unit, format: format || "number" };
}

// The rows in which one of `columns` was measured and x is known, by x.
function rowsOf(xs, columns) {
  return [...xs.keys()]
    .filter((row) => xs[row] !== undefined && columns.some(({ ys }) => ys[row] !== undefined))
    .sort((a, b) => xs[a] - xs[b] || a - b);
}

function picked({ ys, lows, highs }, rows) {
  const pick = (values) => values && rows.map((row) => values[row]);
  return { ys: pick(ys), lows: pick(lows), highs: pick(highs) };
}
