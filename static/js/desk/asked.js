// What was asked of a worker at an item, kept in this browser until the item is answered: who leaves the page or closes the dialog
// finds the answer on coming back. Asking again costs nothing, as the server does each thing once.
import { readJson, write } from "../core/storage.js";

const keyOf = (item, what) => `asked:${what}:${item}`;

/** The steps at which `what` was asked for. */
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

/** All of it: the item is answered. */
export function forgetAllAsked(item) {
  for (const what of ["alternatives", "endings"]) write(keyOf(item, what), null);
}
