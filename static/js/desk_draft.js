// An unfinished answer: kept in this browser with every change, and on the server a moment later.
import { post } from "./desk_server.js";
import { readJson, write } from "./store.js";

const WAIT_MS = 800;

const keyOf = (pair) => `draft:${pair}`;

/** The values of the answer's form that are worth keeping. */
export function valuesOf(form) {
  const { answer, rationale, seconds, guideline_version } = Object.fromEntries(new FormData(form));
  return { answer: answer ?? "", rationale, seconds, guideline_version };
}

/** Fills the form of `article` from this browser's draft, if there is one, and keeps it from now on. */
export function keepDraft(article, seconds) {
  const form = article.querySelector("[data-answer]");
  const pair = article.dataset.pair;
  restore(form, readJson(keyOf(pair)));
  if (article.dataset.drafting !== undefined) return;
  article.dataset.drafting = "";
  let timer = 0;
  form.addEventListener("input", () => {
    const draft = { ...valuesOf(form), seconds: seconds() };
    write(keyOf(pair), JSON.stringify(draft));
    clearTimeout(timer);
    timer = setTimeout(() => article.isConnected && post(form.dataset.draftUrl, draft), WAIT_MS);
  });
}

export function forgetDraft(pair) {
  write(keyOf(pair), null);
}

function restore(form, draft) {
  if (!draft) return;
  for (const radio of form.querySelectorAll("[name=answer]")) radio.checked = radio.value === draft.answer;
  form.elements.rationale.value = draft.rationale ?? "";
  form.elements.seconds.value = draft.seconds ?? 0;
}
