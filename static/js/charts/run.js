// A run's page: its curves and its log. After live.js has swapped in a new state, both fetch what was added.
import { attach } from "../core/attach.js";
import { request } from "../core/requests.js";
import { RunCurves } from "./run_curves.js";

const MAX_LOG = 400_000;

attach("[data-run]", (root, signal) => {
  const { seriesUrl, logUrl } = root.dataset;
  const curves = new RunCurves(document.getElementById("run-charts"), seriesUrl, signal);
  let busy = false;
  let rerun = false;
  const log = document.getElementById("run-log");
  log.scrollTop = log.scrollHeight; // show the newest lines; earlier ones can be scrolled to

  async function catchUp() {
    if (busy) {
      rerun = true;
      return;
    }
    busy = true;
    do {
      rerun = false;
      try {
        await Promise.all([extendLog(logUrl, signal), curves.extend()]);
      } catch (error) {
        // While the run is active, the next swap retries; live.js reports an unreachable server.
        if (!signal.aborted) curves.sayFailure(error);
      }
    } while (rerun && !signal.aborted);
    busy = false;
  }

  document.addEventListener("live:swapped", catchUp, { signal });
  root.addEventListener("click", ({ target }) => target.closest("[data-curves-retry]") && catchUp(), { signal });
  catchUp();
});

function state(name) {
  return Number(document.getElementById("run-status")?.dataset[name] ?? 0);
}

async function extendLog(url, signal) {
  const log = document.getElementById("run-log");
  if (state("log") <= Number(log.dataset.end)) return;
  const part = await (await request(`${url}?after=${log.dataset.end}`, { signal })).json();
  const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 8;
  if (part.skipped || log.textContent.length > MAX_LOG) {
    log.textContent = "";
    document.getElementById("run-log-skipped").hidden = false;
  }
  log.append(part.text);
  log.dataset.end = part.end;
  if (atEnd) log.scrollTop = log.scrollHeight;
}
