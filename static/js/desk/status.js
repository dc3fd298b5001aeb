// The desk's status: what is being saved, progress, active time, what an answer still lacks.
import { toast } from "../core/toast.js";

export class Status {
  constructor() {
    this.saving = document.querySelector("[data-desk-saving]");
    this.clock = document.querySelector("[data-desk-clock]");
    this.counts = document.querySelector("[data-desk-progress]");
    this.progress = { mine: Number(this.counts.dataset.mine), left: Number(this.counts.dataset.left) };
  }

  say(words, { trouble = false } = {}) {
    this.saving.textContent = this.saving.title = words;
    this.saving.classList.toggle("trouble", trouble);
  }

  /** Shows pending answers; quick ones aren't shown. */
  showSaving({ entries, trouble }) {
    clearTimeout(this.timer);
    if (!entries.length) this.say("");
    else if (trouble) {
      const answers = entries.length === 1 ? "1 answer is" : `${entries.length} answers are`;
      this.say(`${answers} not saved yet. ${trouble} Trying again.`, { trouble: true });
    } else this.timer = setTimeout(() => this.say("Saving…"), 400);
  }

  showProgress(progress) {
    this.progress = progress;
    const words = `${progress.mine.toLocaleString()} by you, ${progress.left.toLocaleString()} left for you`;
    this.counts.textContent = words;
  }

  /** Counts one answer more than the server last reported. */
  countOne() {
    this.showProgress({ mine: this.progress.mine + 1, left: Math.max(this.progress.left - 1, 0) });
  }

  showClock(seconds, isWorking) {
    const whole = Math.floor(seconds);
    this.clock.hidden = !isWorking;
    this.clock.textContent = `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
  }

  /** What the answer lacks, shown until the next action; "" if nothing. */
  showProblem(problem) {
    this.problem?.remove();
    this.problem = problem ? toast(problem, { tone: "attention" }) : null;
  }
}
