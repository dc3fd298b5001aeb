// <form data-draft="name-of-this-draft">: input survives closing the tab, until the form is submitted.
// <form data-unsaved>: leaving with unsaved changes asks for confirmation.
import { attach } from "./attach.js";
import { readJson, write } from "./storage.js";

const WAIT_MS = 400;

const hasOptions = ({ type, multiple }) => ["checkbox", "radio"].includes(type) || (multiple && type !== "file");

/** The form's values by name; [] for boxes of which none is checked, so that unchecking is stored too. */
export function valuesOf(form) {
  const values = {};
  for (const field of form.elements) if (field.name && hasOptions(field)) values[field.name] = [];
  for (const [name, value] of new FormData(form)) {
    if (name === "csrfmiddlewaretoken" || value instanceof File) continue;
    values[name] ??= [];
    values[name].push(value);
  }
  return values;
}

/** Sets the form's fields to `values`; hidden ones, files, and passwords stay. */
export function fill(form, values) {
  for (const field of form.elements) {
    if (
      !field.name ||
      !(field.name in values) ||
      ["hidden", "file", "password", "submit", "button"].includes(field.type)
    )
      continue;
    if (field.type === "checkbox" || field.type === "radio") field.checked = values[field.name].includes(field.value);
    else if (field.multiple)
      for (const option of field.options) option.selected = values[field.name].includes(option.value);
    else field.value = values[field.name][0];
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }
}

attach("form[data-draft]", (form, signal) => {
  const key = `draft:${form.dataset.draft}`;
  let timer = 0;
  const keep = () => {
    clearTimeout(timer);
    timer = 0;
    write(key, JSON.stringify(valuesOf(form)));
  };
  const forget = () => {
    clearTimeout(timer);
    timer = 0;
    write(key, null);
  };
  const draft = readJson(key);
  if (draft) {
    fill(form, draft);
    form.dispatchEvent(new CustomEvent("draft:restored", { bubbles: true }));
  }
  form.addEventListener(
    "input",
    () => {
      clearTimeout(timer);
      timer = setTimeout(keep, WAIT_MS);
    },
    { signal },
  );
  window.addEventListener("pagehide", () => timer && keep(), { signal }); // the page was closed before the delay was over
  // A plain submit leaves the page; if it fails, the server returns the values itself.
  form.addEventListener("submit", () => form.hasAttribute("hx-post") || forget(), { signal });
  form.addEventListener("htmx:afterRequest", ({ detail }) => detail.successful && detail.elt === form && forget(), {
    signal,
  });
  form.addEventListener("draft:forget", forget, { signal });
});

attach("form[data-unsaved]", (form, signal) => {
  const before = JSON.stringify(valuesOf(form));
  let sent = false;
  form.addEventListener("submit", () => (sent = true), { signal });
  window.addEventListener(
    "beforeunload",
    (event) => {
      if (!sent && JSON.stringify(valuesOf(form)) !== before) event.preventDefault();
    },
    { signal },
  );
});
