// What was entered in a form is filled in again if the session had ended when it was sent (or, with data-unsaved, when htmx asked for something): both lead
// to the sign-in page, and from there back. Only for the same person, in the same tab.
import { fill, valuesOf } from "./form_draft.js";
import { isOurs } from "./nonce.js";
import { toast } from "./toast.js";

const KEY = "retrace:interrupted";
const { person } = document.body.dataset; // none on the sign-in page

function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY));
  } catch {
    return null;
  }
}

function write(value) {
  try {
    if (value) sessionStorage.setItem(KEY, JSON.stringify(value));
    else sessionStorage.removeItem(KEY);
  } catch {
    // Storage is optional.
  }
}

/** The form's visible values by name, without passwords. */
function enteredIn(form) {
  const secret = [...form.elements].filter(({ type }) => ["hidden", "password"].includes(type));
  const names = new Set(secret.map(({ name }) => name));
  return Object.fromEntries(Object.entries(valuesOf(form)).filter(([name]) => !names.has(name)));
}

function resume({ page, values }) {
  const fits = (form) => isOurs(form) && Object.keys(values).every((name) => form.elements.namedItem(name));
  const form = page === location.pathname && [...document.querySelectorAll("form[method=post]")].find(fits);
  if (!form) return;
  write(null);
  fill(form, values);
  toast("You were signed out. What you had entered is here again, and wasn't sent.", { tone: "attention" });
}

const before = read();
if (person) watch();
if (document.querySelector("form[data-sign-in]")) {
  if (before) write({ ...before, isInterrupted: true });
} else if (before?.isInterrupted && before.person === person) resume(before);
else write(null);

function watch() {
  const pristine = new Map();
  for (const form of document.querySelectorAll("form[data-unsaved]"))
    pristine.set(form, JSON.stringify(valuesOf(form)));
  let submission = null;
  document.addEventListener("submit", (event) => (submission = event));
  addEventListener("pagehide", () => {
    const sent = submission && !submission.defaultPrevented ? submission.target : null;
    const changed = [...pristine.keys()].find((form) => JSON.stringify(valuesOf(form)) !== pristine.get(form));
    const form = sent ?? changed;
    if (form?.getAttribute("method") !== "post" || !isOurs(form)) return;
    const values = enteredIn(form);
    if (Object.keys(values).length) write({ person, page: location.pathname, values });
  });
}
