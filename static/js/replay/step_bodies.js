// The opened steps of a run: fetched in chunks before they are needed, kept while they are likely to be needed again.

import { fragmentOf } from "../core/markup.js";

const CHUNK = 8;
const KEPT = 160;
const AT_ONCE = 2;

export class Bodies {
  /** `arrived(index, article)` is called for each step that comes in. */
  constructor(url, count, arrived) {
    this.url = url;
    this.count = count;
    this.arrived = arrived;
    this.kept = new Map();
    this.waiting = [];
    this.asked = new Map();
  }

  /** The article of a step if it is here; asking keeps it longer. */
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

  /** Fetch these steps, the first ones first; what was asked for earlier and has not begun is forgotten. */
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
      const response = await fetch(`${this.url}?from=${first}&to=${last}`, {
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
      // The steps keep their shells; after a while they are asked for again.
      setTimeout(() => {
        this.asked.delete(chunk);
        this.waiting.push(chunk);
        this.next();
      }, 2000);
    }
    this.next();
  }
}
