// Preserves the reader's state across swaps: focus and selection, scroll position, and open folds, for elements with an id.
// htmx preserves focus for its own swaps; out-of-band and live swaps need this too.

let saved = null;

function remember() {
  const focused = document.activeElement;
  return {
    focus: focused?.id
      ? { id: focused.id, start: selectionOf(focused, "selectionStart"), end: selectionOf(focused, "selectionEnd") }
      : null,
    scrolls: [...document.querySelectorAll("[data-keep-scroll][id]")].map((element) => ({
      id: element.id,
      top: element.scrollTop,
      left: element.scrollLeft,
      atEnd: element.scrollHeight - element.scrollTop - element.clientHeight < 8,
    })),
    folds: [...document.querySelectorAll("details[id]")].map(({ id, open }) => ({ id, open })),
  };
}

function restore({ focus, scrolls, folds }) {
  for (const { id, open } of folds) {
    const fold = document.getElementById(id);
    if (fold) fold.open = open;
  }
  for (const { id, top, left, atEnd } of scrolls) {
    const element = document.getElementById(id);
    if (!element) continue;
    // A log scrolled to its end stays at its end.
    element.scrollTop = atEnd && element.dataset.keepScroll === "end" ? element.scrollHeight : top;
    element.scrollLeft = left;
  }
  const element = focus && document.getElementById(focus.id);
  if (!element || element === document.activeElement) return;
  element.focus({ preventScroll: true });
  if (focus.start !== null) element.setSelectionRange?.(focus.start, focus.end);
}

// Inputs of types other than text throw on access to their selection.
function selectionOf(element, property) {
  try {
    return element[property] ?? null;
  } catch {
    return null;
  }
}

/** Runs `change`, which may replace any part of the page, and restores the reader's state. */
export function preservingState(change) {
  const position = remember();
  change();
  restore(position);
}

// On the window, since listeners on the document may prevent a swap. A response that isn't swapped never settles.
for (const type of ["htmx:oobBeforeSwap", "htmx:beforeSwap"])
  window.addEventListener(type, ({ detail }) => {
    if (detail.shouldSwap) saved ??= remember();
  });
document.addEventListener("htmx:afterSettle", () => {
  if (saved) restore(saved);
  saved = null;
});
