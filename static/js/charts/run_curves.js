// The curves of one run's page.
import { chartsOf } from "./curves.js";
import { Panels } from "./panels.js";
import { RunSeries } from "./run_series.js";

/** Fills `root` (_curves.html) from the series at `url`, up to the run's progress in #run-status. */
export class RunCurves {
  #drawnState = null;
  #panels;
  #root;
  #series;
  #signal;
  #since = ""; // when the attempt whose steps are drawn began

  constructor(root, url, signal) {
    this.#root = root;
    this.#series = new RunSeries(url);
    this.#signal = signal;
    this.#panels = new Panels(root, signal);
  }

  async extend() {
    const { step, seq, since } = document.getElementById("run-status").dataset;
    const state = `${step} ${seq} ${since}`;
    if (state !== this.#drawnState) {
      if (since === this.#since) await this.#series.extend(this.#signal);
      else await this.#series.load(this.#signal); // the steps after the checkpoint are gone
      this.#since = since;
      this.#drawnState = state;
      this.#show();
    }
    this.#root.querySelector("[data-curves-failure]").hidden = true;
  }

  #show() {
    const series = this.#series;
    const form = document.getElementById("open-rollouts");
    form.hidden = !series.sampled.length;
    if (!form.elements.step.value) form.elements.step.value = series.sampled.at(-1) ?? "";
    const open = (step) => {
      form.elements.step.value = step;
      form.requestSubmit();
    };
    const axes = ["steps", "rollouts", "tokens", "seconds"].filter((axis) => series.xs(axis).length);
    const isOver = document.getElementById("run-status").hasAttribute("data-live-end");
    this.#panels.show(
      chartsOf(series, open),
      axes,
      isOver ? "The run ended before its first step: there are no curves." : "Curves appear with the first step.",
    );
  }

  sayFailure({ message }) {
    const failure = this.#root.querySelector("[data-curves-failure]");
    failure.hidden = false;
    failure.querySelector(".words").textContent = `The curves are not up to date. ${message}`;
  }
}
