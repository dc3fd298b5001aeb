// Marked text in a step. A span has its part (index among those of its role), its start offset there, and the text.

const NAME = "marked";
const ranges = new Map(); // article -> index -> the ranges of its spans

/** The selection inside `row` as a span; null if nothing in it is selected. */
export function selectedSpan(row) {
  const selection = getSelection();
  if (!selection.rangeCount || selection.isCollapsed) return null;
  const range = selection.getRangeAt(0);
  const part = elementOf(range.startContainer).closest("[data-role]");
  if (!part || !row.contains(part)) return null;
  const before = document.createRange();
  before.selectNodeContents(part);
  const most = part.textContent.length;
  before.setEnd(range.startContainer, range.startOffset);
  const start = before.toString().length;
  const selected = range.toString().slice(0, most - start);
  const quote = selected.trim();
  const margin = selected.length - selected.trimStart().length;
  return quote ? { part: nameOf(row, part), start: start + margin, quote, note: "" } : null;
}

/** The first occurrence of this text in `row` as a span; null if there is none. */
export function typedSpan(row, words) {
  for (const part of partsOf(row)) {
    const text = part.textContent;
    const lower = text.toLowerCase();
    // “İ” is longer in lower case, so places wouldn't fit.
    const start = lower.length === text.length ? lower.indexOf(words.toLowerCase()) : text.indexOf(words);
    if (start >= 0) return { part: nameOf(row, part), start, quote: text.slice(start, start + words.length), note: "" };
  }
  return null;
}

/** Highlights the spans of an open step if the browser supports it; the list below the step shows them in any case. */
export function highlight(article, index, spans) {
  if (!globalThis.CSS?.highlights || (!spans.length && !ranges.get(article)?.has(index))) return;
  const row = article.querySelector(`#row-${index}`);
  if (!ranges.has(article)) ranges.set(article, new Map());
  ranges.get(article).set(index, spans.map((span) => rangeOf(row, span)).filter(Boolean));
  draw();
}

/** Releases an item that has left the page: a range keeps everything around it in memory. */
export function forgetHighlights(article) {
  if (ranges.delete(article)) draw();
}

function draw() {
  const all = [...ranges.values()].flatMap((rows) => [...rows.values()].flat());
  CSS.highlights.set(NAME, new Highlight(...all.filter((range) => range.startContainer.isConnected)));
}

function rangeOf(row, { part, start, quote }) {
  const element = partsOf(row).find((each) => nameOf(row, each) === part);
  if (!element) return null;
  const text = element.textContent;
  const at = text.startsWith(quote, start) ? start : text.indexOf(quote);
  if (at < 0) return null;
  const range = document.createRange();
  range.setStart(...placeAt(element, at));
  range.setEnd(...placeAt(element, at + quote.length));
  return range;
}

function placeAt(element, offset) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let remaining = offset;
  let node = walker.nextNode();
  while (node && remaining > node.length) {
    remaining -= node.length;
    node = walker.nextNode();
  }
  return node ? [node, remaining] : [element, element.childNodes.length];
}

function partsOf(row) {
  return [...row.querySelectorAll(".step-body [data-role]")];
}

function nameOf(row, part) {
  const { role } = part.dataset;
  return `${role}.${partsOf(row)
    .filter((each) => each.dataset.role === role)
    .indexOf(part)}`;
}

function elementOf(node) {
  return node instanceof Element ? node : node.parentElement;
}
