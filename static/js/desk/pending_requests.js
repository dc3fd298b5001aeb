// Worker requests for an item, stored in this browser until the item is answered: after leaving the page or closing the dialog
// the result can still be found. Repeating a request costs nothing, as the server deduplicates them.
import { readJson, write } from "../core/storage.js";

const keyOf = (item, what) => `asked:${what}:${item}`;

/** The steps for which `what` was requested. */
export function pendingSteps(item, what) {
  return readJson(keyOf(item, what)) ?? [];
}

export function addPending(item, what, index) {
  write(keyOf(item, what), JSON.stringify([...new Set([...pendingSteps(item, what), index])]));
}

export function removePending(item, what, index) {
  const remaining = pendingSteps(item, what).filter((each) => each !== index);
  write(keyOf(item, what), remaining.length ? JSON.stringify(remaining) : null);
}

/** Clears everything: the item is answered. */
export function clearPending(item) {
  for (const what of ["alternatives", "endings"]) write(keyOf(item, what), null);
}
