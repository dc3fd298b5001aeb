// The outline: one row per step, all of the same height, so that only visible rows are in the page.
import { afterPaint } from "../core/paint.js";
import { outlineRow } from "./row_markup.js";

const BEYOND = 20; // rows above and below the visible ones

export class Outline {
  constructor(scroller, steps, { urlOf, onGo, signal }) {
    Object.assign(this, { scroller, steps, urlOf });
    this.rows = scroller.querySelector("ol");
    this.rowHeight = this.rows.firstElementChild?.offsetHeight || 28;
    this.order = steps.map((step) => step.index);
    this.words = new Map();
    this.judged = new Set();
    this.current = -1;
    this.shown = new Map();
    const seen = () => {
      this.look();
      this.drawInSight();
    };
    this.look();
    this.draw(true);
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

  /** Shows these steps; `words` (index → text) are search excerpts. */
  setOrder(order, words = new Map()) {
    this.order = order;
    this.words = words;
    this.draw(true);
  }

  /** Marks these steps as judged. */
  setJudged(indices) {
    this.judged = indices;
    this.draw(true);
  }

  // Measuring forces a layout, so it's done on changes and not at every step.
  look() {
    const { scrollTop, clientHeight } = this.scroller;
    Object.assign(this, { scrollTop, clientHeight });
  }

  go(index) {
    const before = this.current;
    this.current = index;
    const position = this.order.indexOf(index);
    if (position >= 0) {
      const top = position * this.rowHeight;
      if (top < this.scrollTop + this.rowHeight || top > this.scrollTop + this.clientHeight - 2 * this.rowHeight) {
        this.scroller.scrollTop = top - this.clientHeight / 3;
        this.look();
      }
    }
    this.drawInSight();
    // Updates only two rows: stepping has to fit into a frame.
    for (const changed of new Set([before, index])) this.dress(changed);
  }

  dress(index) {
    const row = this.shown.get(index)?.firstElementChild;
    if (!row) return;
    row.classList.toggle("current", index === this.current);
    if (index === this.current) row.setAttribute("aria-current", "step");
    else row.removeAttribute("aria-current");
  }

  // Rows outside the viewport need not be rendered in the frame that handles a key.
  drawInSight() {
    const { first, last } = this.around(0);
    if (first < this.first || last > this.last) return this.draw();
    if (this.soon) return;
    this.soon = true;
    afterPaint(() => {
      this.soon = false;
      this.draw();
    });
  }

  /** The range of visible rows, plus the margin above and below. */
  around(beyond) {
    return {
      first: Math.max(0, Math.floor(this.scrollTop / this.rowHeight) - beyond),
      last: Math.min(this.order.length, Math.ceil((this.scrollTop + this.clientHeight) / this.rowHeight) + beyond),
    };
  }

  draw(anew = false) {
    const { first, last } = this.around(BEYOND);
    if (!anew && first === this.first && last === this.last) return;
    Object.assign(this, { first, last });
    const before = anew ? new Map() : this.shown;
    const item = (index) => before.get(index) ?? this.item(index);
    this.shown = new Map(this.order.slice(first, last).map((index) => [index, item(index)]));
    reconcile(this.rows, [...this.shown.values()]);
    this.rows.style.paddingTop = `${first * this.rowHeight}px`;
    this.rows.style.paddingBottom = `${(this.order.length - last) * this.rowHeight}px`;
    this.dress(this.current);
  }

  item(index) {
    const item = document.createElement("li");
    item.append(outlineRow(this.steps[index], this.urlOf(index), this.words.get(index), this.judged.has(index)));
    return item;
  }
}

/** Makes `items` the children of `list`; unchanged ones aren't touched, which avoids their layout. */
function reconcile(list, items) {
  const itemSet = new Set(items);
  for (const child of [...list.children]) if (!itemSet.has(child)) child.remove();
  let next = list.firstElementChild;
  for (const item of items) {
    if (item === next) next = next.nextElementSibling;
    else list.insertBefore(item, next);
  }
}
