// The opened steps of a run: prefetched in chunks, and cached while they are likely to be needed again.

import { fragmentOf } from "../core/markup.js";

const CHUNK = 8;
const KEPT = 160;
const AT_ONCE = 2;

export class Bodies {
  /** `arrived(index, article)` is called for each loaded step. */
  constructor(url, count, arrived) {
    this.url = url;
    this.count = count;
    this.arrived = arrived;
    this.kept = new Map();
    this.waiting = [];
    this.asked = new Map();
  }

  /** The article of a step if it's loaded; access keeps it cached longer. */
  get(index) {
    const article = this.kept.get(index);
    if (article) this.put(index, article);
    return article;
  }

  put(index, article) {
    this.kept.delete(index);
    this.kept.set(index, article);
    for (const [oldest, element] of this.kept) {
      if (this.kept.size <= KEPT) break;
      if (!element.isConnected) this.kept.delete(oldest);
      else break;
    }
  }

  /** Fetches these steps in order; earlier requests that haven't started are dropped. */
  want(indices) {
    const chunks = new Set();
    for (const index of indices)
      if (index >= 0 && index < this.count && !this.kept.has(index)) chunks.add(Math.floor(index / CHUNK));
    this.waiting = [...chunks].filter((chunk) => !this.asked.has(chunk));
    this.next();
  }

  next() {
    while (this.asked.size < AT_ONCE && this.waiting.length) this.fetch(this.waiting.shift());
  }

  async fetch(chunk) {
    const first = chunk * CHUNK;
    const last = Math.min(first + CHUNK, this.count) - 1;
    this.asked.set(chunk, true);
    try {
      const response = await fetch(`${this.url}&from=${first}&to=${last}`, {
        headers: { "HX-Request": "true" },
        credentials: "same-origin",
      });
      if (!response.ok) throw new Error(`The server answered ${response.status}.`);
      for (const article of [...fragmentOf(await response.text()).children]) {
        const index = Number(article.dataset.step);
        article.tabIndex = -1;
        if (this.kept.has(index)) continue;
        this.put(index, document.adoptNode(article));
        this.arrived(index, article);
      }
      this.asked.delete(chunk);
    } catch {
      // The steps keep their shells; they are requested again after a while.
      setTimeout(() => {
        this.asked.delete(chunk);
        this.waiting.push(chunk);
        this.next();
      }, 2000);
    }
    this.next();
  }
}
