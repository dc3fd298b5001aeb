// An unfinished answer: stored in this browser on every change, and on the server a moment later.

import { readJson, write } from "../core/storage.js";
import { post } from "./server.js";

const WAIT_MS = 800;

const keyOf = (item) => `draft:${item}`;

/** By item element: the values that the server doesn't have yet. */
const unsent = new WeakMap();

/** The form's values: an unselected radio group is "", a checkbox group [], so that deselecting is stored too. */
export function valuesOf(form) {
  const values = {};
  for (const { type, name } of form.elements)
    if (type === "radio" || type === "checkbox") values[name] = type === "radio" ? "" : [];
  for (const [name, value] of new FormData(form))
    if (Array.isArray(values[name])) values[name].push(value);
    else values[name] = value;
  delete values.csrfmiddlewaretoken;
  return values;
}

/** Fills the form of `article` from this browser's draft, if it's the newest, and stores changes from now on. */
export function keepDraft(article, seconds) {
  const form = article.querySelector("[data-answer]");
  const { item } = article.dataset;
  restore(form, readJson(keyOf(item)));
  if (article.dataset.drafting !== undefined) return;
  article.dataset.drafting = "";
  let timer = 0;
  form.addEventListener("input", () => {
    const draft = { ...valuesOf(form), seconds: seconds() };
    write(keyOf(item), JSON.stringify(draft));
    unsent.set(article, draft);
    clearTimeout(timer);
    timer = setTimeout(() => article.isConnected && send(article), WAIT_MS);
  });
}

async function send(article) {
  const { url, values } = unsentDraft(article);
  const { result } = await post(url, values);
  if (result === "done" && unsent.get(article) === values) unsent.delete(article);
}

/** The request that the server doesn't have yet of the last changes to `article`; undefined if it has all of them. */
export function unsentDraft(article) {
  const values = unsent.get(article);
  return values && { url: article.querySelector("[data-answer]").dataset.draftUrl, values };
}

export function forgetDraft(item) {
  write(keyOf(item), null);
}

// The active time tells which is newer, since it continues from draft to draft: work done since in another browser, or before the item was set aside,
// is in the form already.
function restore(form, draft) {
  if (!draft || Number(draft.seconds) < Number(form.elements.seconds.value)) return;
  for (const field of form.elements) {
    if (!(field.name in draft) || field.name === "guideline_version") continue; // they may have been read since
    if (field.type === "radio") field.checked = field.value === draft[field.name];
    else if (field.type === "checkbox") field.checked = [draft[field.name]].flat().includes(field.value);
    else if (field.type !== "submit") field.value = draft[field.name] ?? "";
  }
  form.dispatchEvent(new CustomEvent("draft:restored", { bubbles: true }));
}
