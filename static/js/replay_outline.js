// The outline: one row a step, all of one height, so only those in sight are in the page.
import { outlineRow } from "./replay_row.js";

const BEYOND = 10;

export class Outline {
  constructor(scroller, steps, { urlOf, onGo, signal }) {
    Object.assign(this, { scroller, steps, urlOf });
    this.rows = scroller.querySelector("ol");
    this.rowHeight = this.rows.firstElementChild?.offsetHeight || 28;
    this.order = steps.map((step) => step.index);
    this.words = new Map();
    this.judged = new Set();
    this.current = -1;
    const seen = () => (this.look(), this.draw());
    seen();
    scroller.addEventListener("scroll", seen, { passive: true, signal });
    const size = new ResizeObserver(seen);
    size.observe(scroller);
    signal.addEventListener("abort", () => size.disconnect());
    scroller.addEventListener(
      "click",
      (event) => {
        const row = event.target.closest("[data-go]");
        if (!row || event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        onGo(Number(row.dataset.go));
      },
      { signal },
    );
  }

  /** Show these steps; `words` (index → text) are what a search found in them. */
  setOrder(order, words = new Map()) {
    this.order = order;
    this.words = words;
    this.draw(true);
  }

  /** Mark these steps as judged by themselves. */
  setJudged(indices) {
    this.judged = indices;
    this.draw(true);
  }

  // Asking for it lays out the page, so it is asked when it changes and not at every step.
  look() {
    const { scrollTop, clientHeight } = this.scroller;
    Object.assign(this, { scrollTop, clientHeight });
  }

  go(index) {
    const before = this.current;
    this.current = index;
    const place = this.order.indexOf(index);
    if (place >= 0) {
      const top = place * this.rowHeight;
      if (top < this.scrollTop + this.rowHeight || top > this.scrollTop + this.clientHeight - 2 * this.rowHeight) {
        this.scroller.scrollTop = top - this.clientHeight / 3;
        this.look();
      }
    }
    this.draw();
    // Two rows change, not all of them: stepping has to fit into a frame.
    for (const changed of new Set([before, index])) this.dress(changed);
  }

  dress(index) {
    const row = this.rows.querySelector(`[data-go="${index}"]`);
    if (!row) return;
    row.classList.toggle("current", index === this.current);
    if (index === this.current) row.setAttribute("aria-current", "step");
    else row.removeAttribute("aria-current");
  }

  draw(anew = false) {
    const first = Math.max(0, Math.floor(this.scrollTop / this.rowHeight) - BEYOND);
    const last = Math.min(this.order.length, Math.ceil((this.scrollTop + this.clientHeight) / this.rowHeight) + BEYOND);
    if (!anew && first === this.first && last === this.last) return;
    Object.assign(this, { first, last });
    const rows = this.order.slice(first, last).map((index) => {
      const item = document.createElement("li");
      item.append(outlineRow(this.steps[index], this.urlOf(index), this.words.get(index), this.judged.has(index)));
      return item;
    });
    this.rows.replaceChildren(...rows);
    this.rows.style.paddingTop = `${first * this.rowHeight}px`;
    this.rows.style.paddingBottom = `${(this.order.length - last) * this.rowHeight}px`;
    this.dress(this.current);
  }
}
