// The page that compares runs: their curves in shared charts.
import { attach } from "../core/attach.js";
import { overlaysOf } from "./curves.js";
import { Panels } from "./panels.js";
import { RunSeries } from "./run_series.js";

attach("[data-compare]", async (root, signal) => {
  const runs = JSON.parse(root.dataset.compare).map(({ name, url }) => ({ name, run: new RunSeries(url) }));
  const panels = new Panels(root, signal);
  const failure = root.querySelector("[data-curves-failure]");

  async function load() {
    failure.hidden = true;
    try {
      await Promise.all(runs.map(({ run }) => run.load(signal)));
    } catch ({ message }) {
      if (signal.aborted) return;
      failure.hidden = false;
      failure.querySelector(".words").textContent = message;
      return;
    }
    const axes = ["steps", "rollouts", "tokens", "seconds"].filter((axis) =>
      runs.some(({ run }) => run.xs(axis).length),
    );
    panels.show(overlaysOf(runs), axes, "None of these runs has metrics yet.");
  }

  failure.addEventListener("click", ({ target }) => target.closest("[data-curves-retry]") && load(), { signal });
  await load();
});
