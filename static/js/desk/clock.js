// Active time on one item. A pause without input counts for at most a minute; a hidden tab doesn't count.

const MAX_PAUSE_MS = 60_000;
const SIGNS_OF_LIFE = ["keydown", "pointerdown", "pointermove", "wheel", "touchmove", "scroll"];

export class Clock {
  constructor(signal) {
    this.milliseconds = 0;
    this.since = null;
    for (const type of SIGNS_OF_LIFE)
      addEventListener(type, () => this.tick(), { signal, passive: true, capture: true });
    document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.resume()), { signal });
  }

  /** Starts an item that has `seconds` of active time already. */
  start(seconds = 0) {
    this.milliseconds = seconds * 1000;
    this.running = true;
    this.since = null;
    this.resume();
  }

  stop() {
    this.pause();
    this.running = false;
    return this.seconds;
  }

  get seconds() {
    return (this.milliseconds + this.pending()) / 1000;
  }

  pending() {
    return this.since === null ? 0 : Math.min(performance.now() - this.since, MAX_PAUSE_MS);
  }

  tick() {
    if (!this.running || document.hidden) return;
    this.milliseconds += this.pending();
    this.since = performance.now();
  }

  pause() {
    this.milliseconds += this.pending();
    this.since = null;
  }

  resume() {
    if (this.running && !document.hidden && this.since === null) this.since = performance.now();
  }

  /** Whether there was input within the last minute. */
  get isAwake() {
    return this.since !== null && performance.now() - this.since < MAX_PAUSE_MS;
  }
}
