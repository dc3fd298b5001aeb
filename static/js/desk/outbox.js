// Unacknowledged answers. They are sent in order, retried, and survive closing the tab.

import { readJson, write } from "../core/storage.js";
import { post } from "./server.js";

const WAITS_S = [1, 2, 5, 10, 30];

export class Outbox {
  /**
   * `accepted(entry, data)`, `refused(entry, detail)`, and `changed()` report the state of answers to the desk.
   * `alongside(entry)`: values sent with an answer that aren't part of it.
   */
  constructor(name, { alongside, accepted, refused, changed, signal }) {
    this.key = `outbox:${name}`;
    this.alongside = alongside;
    this.accepted = accepted;
    this.refused = refused;
    this.changed = changed;
    this.known = [];
    this.isStored = true;
    this.trouble = "";
    this.failures = 0;
    this.waiters = [];
    addEventListener("online", () => this.send(), { signal });
    addEventListener("beforeunload", (event) => !this.isStored && this.known.length && event.preventDefault(), {
      signal,
    });
    signal.addEventListener("abort", () => clearTimeout(this.timer));
  }

  get entries() {
    return (this.isStored && readJson(this.key)) || this.known;
  }

  set entries(entries) {
    this.known = entries;
    // If storage is blocked or full, they last as long as the tab; what is stored then is older.
    this.isStored = write(this.key, entries.length ? JSON.stringify(entries) : null);
    this.changed();
  }

  has(item) {
    return this.entries.some((entry) => entry.item === item);
  }

  /** An entry is {item, url, values}, with the `draft` to store first, {url, values}, if any; sending it twice does no harm. */
  add(entry) {
    this.entries = [...this.entries, entry];
    this.send();
  }

  /** Resolves once nothing is pending, or to false as soon as the server is unreachable. */
  settled() {
    if (!this.entries.length) return Promise.resolve(true);
    return new Promise((resolve) => {
      this.waiters.push(resolve);
      this.send();
    });
  }

  async send() {
    if (this.sending) return;
    clearTimeout(this.timer);
    this.sending = true;
    let isReachable = true;
    while (isReachable && this.entries.length) isReachable = await this.sendFirst();
    this.sending = false;
    for (const resolve of this.waiters.splice(0)) resolve(isReachable);
    if (!isReachable) this.tryLater();
  }

  async sendFirst() {
    const [entry] = this.entries;
    // Unsent entries are retried automatically and must not be blocked by anything else.
    const alongside = this.failures ? {} : this.alongside(entry);
    const stored = entry.draft && (await post(entry.draft.url, entry.draft.values));
    const { result, data, detail } =
      stored?.result === "retry" ? stored : await post(entry.url, { ...entry.values, ...alongside });
    if (result === "retry") {
      this.trouble = detail;
      return false;
    }
    this.failures = 0;
    this.trouble = "";
    this.remove(entry);
    if (result === "done") this.accepted(entry, data);
    else this.refused(entry, detail);
    return true;
  }

  /** Only this answer: another one to the same item, from another tab, is the server's to refuse. */
  remove(entry) {
    const text = JSON.stringify(entry);
    const sent = this.entries.findIndex((each) => JSON.stringify(each) === text);
    this.entries = this.entries.filter((_, index) => index !== sent);
  }

  tryLater() {
    const wait = WAITS_S[Math.min(this.failures++, WAITS_S.length - 1)];
    this.timer = setTimeout(() => this.send(), wait * 1000);
    this.changed();
  }
}
