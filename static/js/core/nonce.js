// Identifies elements written by our templates: those with data-nonce="{% nonce %}". Injected markup doesn't have it, and therefore
// can't send anything: htmx ignores such elements (the disableSelector in base.html), and modules check here.
import { toast } from "./toast.js";

// Taken from the prototypes: <img name="querySelector"> or <input name="getAttribute"> would otherwise shadow the methods.
const read = Element.prototype.getAttribute;
const find = Document.prototype.querySelector;
const pageNonce = read.call(find.call(document, "meta[name=nonce]"), "data-nonce");

/** Whether `element` was written by our templates for this browser. */
export function isOurs(element) {
  return pageNonce !== "" && read.call(element, "data-nonce") === pageNonce;
}

/** The CSRF header for requests of our own elements. Throws for all others. */
export function csrfHeaders(element) {
  if (!isOurs(element)) throw new Error("This element is not from a template of this server.");
  return { "X-CSRFToken": read.call(find.call(document, "meta[name=csrf-token]"), "content") };
}

document.addEventListener("htmx:configRequest", ({ detail }) => {
  if (detail.verb !== "get") Object.assign(detail.headers, csrfHeaders(detail.elt));
});

// A form has its CSRF token in a field. Injected markup around it, or a button with its own action, could send it elsewhere.
window.addEventListener(
  "submit",
  (event) => {
    const { target: form, submitter } = event;
    const redirected = submitter && ["formaction", "formmethod"].some((name) => read.call(submitter, name) !== null);
    const method = (redirected && read.call(submitter, "formmethod")) || read.call(form, "method") || "get";
    if (method.toLowerCase() !== "post" || (isOurs(form) && (!redirected || isOurs(submitter)))) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    toast("Nothing was sent: this form isn't part of the page that the server sent. Reload the page and try again.", {
      tone: "bad",
    });
  },
  { capture: true },
);
