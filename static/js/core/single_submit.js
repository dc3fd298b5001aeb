// A form that is on its way is not sent again: a second click on Launch would launch a second run.

const HELD_MS = 15_000; // where the page stays: the answer was a file, or somebody pressed Escape
let sent = new WeakSet();

document.addEventListener(
  "submit",
  (event) => {
    const { target: form, submitter } = event;
    if (form.getAttribute("method") !== "post") return; // not form.method: a field may be called that
    if (sent.has(form)) {
      event.preventDefault();
      event.stopImmediatePropagation();
      return;
    }
    // Later, for what is sent by a script or asked about first is prevented by then.
    setTimeout(() => {
      if (event.defaultPrevented) return;
      hold(form, submitter);
      setTimeout(() => release(form, submitter), HELD_MS);
    });
  },
  true,
);

function hold(form, submitter) {
  sent.add(form);
  submitter?.setAttribute("aria-busy", "true");
}

function release(form, submitter) {
  sent.delete(form);
  submitter?.removeAttribute("aria-busy");
}

// Back from the browser's cache the page is as it was left.
addEventListener("pageshow", ({ persisted }) => {
  if (!persisted) return;
  sent = new WeakSet();
  for (const button of document.querySelectorAll("form[method=post] [aria-busy]")) button.removeAttribute("aria-busy");
});
