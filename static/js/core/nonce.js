// Which elements our templates wrote: those with data-nonce="{% nonce %}". What data became, by some mistake, does not carry it, and so
// cannot send anything: htmx leaves such elements alone (the disableSelector in base.html), and the modules ask here.
import { toast } from "./toast.js";

// From the prototypes: <img name="querySelector"> or <input name="getAttribute"> would otherwise stand in for the methods.
const read = Element.prototype.getAttribute;
const find = Document.prototype.querySelector;
const own = read.call(find.call(document, "meta[name=nonce]"), "data-nonce");

/** Whether our templates wrote `element` itself, for this browser. */
export function isOurs(element) {
  return own !== "" && read.call(element, "data-nonce") === own;
}

/** The header that lets a request change something, for requests of an element that is ours. Throws for all others. */
export function csrfHeaders(element) {
  if (!isOurs(element)) throw new Error("This element is not from a template of this server.");
  return { "X-CSRFToken": read.call(find.call(document, "meta[name=csrf-token]"), "content") };
}

document.addEventListener("htmx:configRequest", ({ detail }) => {
  if (detail.verb !== "get") Object.assign(detail.headers, csrfHeaders(detail.elt));
});

// A form holds its CSRF token in a field. Markup around it, or a button with an address of its own, could send it elsewhere.
window.addEventListener(
  "submit",
  (event) => {
    const { target: form, submitter } = event;
    const redirected = submitter && ["formaction", "formmethod"].some((name) => read.call(submitter, name) !== null);
    const method = (redirected && read.call(submitter, "formmethod")) || read.call(form, "method") || "get";
    if (method.toLowerCase() !== "post" || (isOurs(form) && (!redirected || isOurs(submitter)))) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    toast("Nothing was sent: this form is not from this page as the server made it. Reload the page and try again.", {
      tone: "bad",
    });
  },
  { capture: true },
);
