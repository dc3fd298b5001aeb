// Worker requests for an item, stored in this browser until the item is answered: after leaving the page or closing the dialog
// the result can still be found. Repeating a request costs nothing, as the server deduplicates them.
import { readJson, write } from "../core/storage.js";

const keyOf = (item, what) => `asked:${what}:${item}`;

/** The steps for which `what` was requested. */
export function askedAt(item, what) {
  return readJson(keyOf(item, what)) ?? [];
}

export function rememberAsked(item, what, index) {
  write(keyOf(item, what), JSON.stringify([...new Set([...askedAt(item, what), index])]));
}

export function forgetAsked(item, what, index) {
  const left = askedAt(item, what).filter((each) => each !== index);
  write(keyOf(item, what), left.length ? JSON.stringify(left) : null);
}

/** Clears everything: the item is answered. */
export function forgetAllAsked(item) {
  for (const what of ["alternatives", "endings"]) write(keyOf(item, what), null);
}
