// A run of any length in a scrolling pane. Only steps near the viewport are in the page; space is reserved for the rest.
import { afterPaint } from "../core/paint.js";
import { shell } from "./row_markup.js";

const BEYOND = 1.5; // screens above and below the viewport that are rendered
const LINE = 18;
const CLOSED = 37;

export class StepWindow {
  constructor(pane, list, steps, { bodies, urlOf, signal }) {
    Object.assign(this, { pane, list, steps, bodies, urlOf });
    this.order = steps.map((step) => step.index);
    this.heights = steps.map((step) => CLOSED + step.lines * LINE);
    this.closed = new Set();
    this.allClosed = false;
    this.shown = new Map();
    this.above = spacer();
    this.below = spacer();
    this.anchor = null;
    this.resizes = new ResizeObserver((entries) => this.measured(entries));
    this.takeOver();
    pane.addEventListener("scroll", () => this.scrolled(), { passive: true, signal });
    const paneSize = new ResizeObserver(() => this.draw());
    paneSize.observe(pane);
    signal.addEventListener("abort", () => {
      this.resizes.disconnect();
      paneSize.disconnect();
    });
  }

  /** Adopts the steps rendered by the server. */
  takeOver() {
    for (const article of [...this.list.children]) {
      const index = Number(article.dataset.step);
      article.tabIndex = -1;
      this.bodies.put(index, article);
      this.shown.set(index, article);
      this.heights[index] = article.offsetHeight;
      this.resizes.observe(article);
    }
    this.list.prepend(this.above);
    this.list.append(this.below);
    this.count();
    const drawn = [...this.shown.keys()];
    if (!drawn.length) return;
    resize(this.above, this.tops[drawn[0]]);
    resize(this.below, this.tops[this.order.length] - this.tops[drawn.at(-1) + 1]);
    this.scrollTo(this.tops[drawn[0]]);
    this.remember();
  }

  /** Shows only these steps, in this order. */
  setOrder(order) {
    this.order = order;
    this.count();
    for (const [index, article] of this.shown) this.drop(index, article);
    this.draw();
  }

  // tops[p] is the top of the p-th shown step; one more entry is the bottom of the last one.
  count() {
    this.places = new Map(this.order.map((index, place) => [index, place]));
    this.tops = new Float64Array(this.order.length + 1);
    for (let p = 0; p < this.order.length; p++) this.tops[p + 1] = this.tops[p] + this.heights[this.order[p]];
  }

  placeAt(y) {
    let low = 0;
    let high = this.order.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Renders the steps around the viewport, and requests the bodies of these and the next ones. */
  draw() {
    if (!this.order.length) {
      resize(this.above, 0);
      resize(this.below, 0);
      return;
    }
    // Sizes above the anchor may have changed: otherwise the pane would be drawn at its old position, and lose the anchor.
    this.hold();
    const { scrollTop, clientHeight } = this.pane;
    const first = this.placeAt(scrollTop - clientHeight * BEYOND);
    const last = this.placeAt(scrollTop + clientHeight * (1 + BEYOND));
    const inWindow = new Set(this.order.slice(first, last + 1));
    for (const [index, article] of this.shown) if (!inWindow.has(index)) this.drop(index, article);
    let before = this.above;
    for (const index of inWindow) {
      let article = this.shown.get(index);
      if (!article) article = this.show(index);
      if (before.nextElementSibling !== article) before.after(article);
      before = article;
    }
    resize(this.above, this.tops[first]);
    resize(this.below, this.tops[this.order.length] - this.tops[last + 1]);
    this.hold();
    this.onDraw?.();
    const visible = this.placeAt(scrollTop);
    this.bodies.want([
      ...this.order.slice(visible, last + 9),
      ...this.order.slice(Math.max(0, first - 2), visible).reverse(),
    ]);
  }

  show(index) {
    const article = this.bodies.get(index) ?? shell(this.steps[index], this.urlOf(index));
    this.dress(index, article);
    this.shown.set(index, article);
    this.resizes.observe(article);
    return article;
  }

  drop(index, article) {
    this.shown.delete(index);
    this.resizes.unobserve(article);
    article.remove();
  }

  dress(index, article) {
    article.classList.toggle("closed", this.isClosed(index));
    article.classList.toggle("current", index === this.current);
    if (index === this.current) article.setAttribute("aria-current", "step");
    else article.removeAttribute("aria-current");
    article.setAttribute("aria-posinset", index + 1);
    article.setAttribute("aria-setsize", this.steps.length);
    if (article.classList.contains("waiting"))
      article.style.height = this.isClosed(index) ? "" : `${this.heights[index]}px`;
  }

  /** A body has loaded: it replaces its shell. */
  arrived(index, article) {
    const old = this.shown.get(index);
    if (!old || old === article) return;
    const focused = old.contains(document.activeElement);
    this.dress(index, article);
    this.resizes.unobserve(old);
    old.replaceWith(article);
    this.shown.set(index, article);
    this.resizes.observe(article);
    if (focused) article.focus({ preventScroll: true });
  }

  // Heights change when bodies load or open. The reader's position is preserved: this runs before the paint.
  measured(entries) {
    let changed = false;
    for (const { target } of entries) {
      const index = Number(target.dataset.step);
      const height = target.offsetHeight;
      if (!target.isConnected || this.heights[index] === height) continue;
      this.heights[index] = height;
      changed = true;
    }
    if (!changed) return;
    this.count();
    this.draw();
  }

  /** Scrolls the pane so that the anchor is where it was. */
  hold() {
    const article = this.anchor && this.shown.get(this.anchor.index);
    if (!article) return;
    const off = article.getBoundingClientRect().top - this.pane.getBoundingClientRect().top - this.anchor.offset;
    if (Math.abs(off) >= 1) this.scrollTo(this.pane.scrollTop + off);
  }

  scrollTo(top) {
    this.pane.scrollTop = top;
    this.expected = this.pane.scrollTop;
  }

  // Programmatic scrolling keeps the anchor; scrolling by the reader sets a new one.
  scrolled() {
    const byHand = Math.abs(this.pane.scrollTop - (this.expected ?? 0)) >= 2;
    if (byHand) {
      this.expected = this.pane.scrollTop;
      this.anchor = null;
    }
    if (!byHand) return this.drawSoon();
    this.draw();
    this.remember();
    this.onScroll?.(this.anchor?.index);
  }

  remember() {
    const top = this.pane.getBoundingClientRect().top;
    const index = this.order[this.placeAt(this.pane.scrollTop + 1)];
    const article = this.shown.get(index);
    this.anchor = article ? { index, offset: article.getBoundingClientRect().top - top } : null;
  }

  /** Makes a step the current one; `scroll` brings its head to the top of the pane. */
  go(index, { scroll = true } = {}) {
    const before = this.current;
    this.current = index;
    // Scrolling measures positions, which is free before any change.
    if (scroll && this.places.has(index)) this.bring(index);
    for (const changed of [before, index]) if (this.shown.has(changed)) this.dress(changed, this.shown.get(changed));
  }

  bring(index) {
    this.anchor = { index, offset: 0 };
    if (this.fills(index)) {
      this.hold();
      this.drawSoon();
      return;
    }
    if (!this.shown.has(index)) {
      this.scrollTo(this.tops[this.places.get(index)]);
      this.draw();
    }
    // Rendering around the step moves it until everything above has its real size.
    for (let turn = 0, settled = false; !settled && turn < 4; turn++) {
      const before = this.pane.scrollTop;
      this.hold();
      this.draw();
      settled = Math.abs(this.pane.scrollTop - before) < 1;
    }
  }

  /** Whether everything visible with this step at the top is rendered. */
  fills(index) {
    const height = this.pane.clientHeight;
    const top = Math.min(this.tops[this.places.get(index)], this.tops[this.order.length] - height);
    return this.order.slice(this.placeAt(top), this.placeAt(top + height) + 1).every((each) => this.shown.has(each));
  }

  // Steps outside the viewport need not be rendered in the frame that handles a key.
  drawSoon() {
    if (this.soon) return;
    this.soon = true;
    afterPaint(() => {
      this.soon = false;
      this.draw();
    });
  }

  isClosed(index) {
    return this.allClosed !== this.closed.has(index);
  }

  toggle(index) {
    if (this.closed.has(index)) this.closed.delete(index);
    else this.closed.add(index);
    this.fold([index]);
  }

  toggleAll() {
    this.allClosed = !this.allClosed;
    this.closed.clear();
    this.fold(this.steps.map((step) => step.index));
  }

  fold(indices) {
    for (const index of indices) {
      const article = this.shown.get(index);
      if (article) this.dress(index, article);
      else this.heights[index] = this.isClosed(index) ? CLOSED : CLOSED + this.steps[index].lines * LINE;
    }
    this.count();
    this.draw();
  }
}

function spacer() {
  const element = document.createElement("div");
  element.className = "spacer";
  element.setAttribute("aria-hidden", "true");
  return element;
}

function resize(element, height) {
  element.style.height = `${Math.max(0, Math.round(height * 100) / 100)}px`;
}
