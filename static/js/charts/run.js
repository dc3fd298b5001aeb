// A run's page: when live.js has swapped in a new state, the log and the curves fetch what is new since what they hold.
import { attach } from "../core/attach.js";
import { swapPartials } from "../core/live.js";
import { request } from "../core/requests.js";

const MOST_ROWS = 600;
const MOST_LOG = 400_000;

attach("[data-run]", (root, signal) => {
  const { metricsUrl, chartsUrl, logUrl } = root.dataset;
  let busy = false;
  let again = false;
  const log = document.getElementById("run-log");
  if (log) log.scrollTop = log.scrollHeight; // the newest lines; those before are a scroll away

  async function catchUp() {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      do {
        again = false;
        await Promise.all([extendLog(logUrl, signal), extendCurves(metricsUrl, chartsUrl, signal)]);
      } while (again && !signal.aborted);
    } catch {
      // The next swap tries again; live.js says when the server is away.
    } finally {
      busy = false;
    }
  }

  document.addEventListener("live:swapped", catchUp, { signal });
  // A point of a curve opens the rollouts that it was measured on.
  root.addEventListener(
    "chart:open",
    ({ detail }) => {
      const form = document.getElementById("open-rollouts");
      if (!form) return;
      form.elements.step.value = detail.x;
      form.requestSubmit();
    },
    { signal },
  );
});

function state(name) {
  return Number(document.getElementById("run-status")?.dataset[name] ?? 0);
}

async function extendLog(url, signal) {
  const log = document.getElementById("run-log");
  if (state("log") <= Number(log.dataset.end)) return;
  const part = await (await request(`${url}?after=${log.dataset.end}`, { signal })).json();
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 8;
  if (part.skipped || log.textContent.length > MOST_LOG) {
    log.textContent = "";
    document.getElementById("run-log-skipped").hidden = false;
  }
  log.append(part.text);
  log.dataset.end = part.end;
  if (atEnd) log.scrollTop = log.scrollHeight;
}

async function extendCurves(metricsUrl, chartsUrl, signal) {
  const tables = [...document.querySelectorAll("#run-charts table[data-metrics]")];
  const last = Math.max(-1, ...tables.map(lastStep));
  const step = state("step");
  if (step === last) return;
  const wentBack = step < last; // resumed from a checkpoint before what is drawn
  const tooLong = tables.some((table) => table.tBodies[0].rows.length > MOST_ROWS);
  if (!tables.length || wentBack || tooLong) return redraw(chartsUrl, signal);
  const { points, sampled } = await (await request(`${metricsUrl}?after=${last - 1}`, { signal })).json();
  const charts = document.getElementById("run-charts");
  if (sampled && !charts.dataset.marks) return redraw(chartsUrl, signal);
  charts.dataset.marks = sampled;
  const known = new Set(tables.flatMap(metricsOf));
  if (points.some(({ values }) => Object.keys(values).some((name) => !known.has(name))))
    return redraw(chartsUrl, signal);
  for (const table of tables) for (const point of points) addPoint(table, point);
}

function metricsOf(table) {
  return table.dataset.metrics.split(" ");
}

function lastStep(table) {
  const { rows } = table.tBodies[0];
  return rows.length ? Number(rows[rows.length - 1].cells[0].textContent) : -1;
}

/** Writes the values of a step into its row, which is the last one or a new one. */
function addPoint(table, { step, values }) {
  const names = metricsOf(table);
  if (!names.some((name) => name in values)) return;
  const body = table.tBodies[0];
  let row = body.rows[body.rows.length - 1];
  if (!row || Number(row.cells[0].textContent) < step) {
    row = body.insertRow();
    row.insertCell().textContent = step;
    for (const _ of names) row.insertCell();
  }
  if (Number(row.cells[0].textContent) !== step) return;
  names.forEach((name, index) => {
    if (name in values) row.cells[index + 1].textContent = Number(values[name].toPrecision(5));
  });
}

async function redraw(chartsUrl, signal) {
  swapPartials(await (await request(chartsUrl, { signal })).text());
}
