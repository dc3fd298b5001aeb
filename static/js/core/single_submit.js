// Prevents double submission: a second click on Launch would launch a second run.

const HELD_MS = 15_000; // for when the page stays: the response was a file, or Escape was pressed
let sent = new WeakSet();

document.addEventListener(
  "submit",
  (event) => {
    const { target: form, submitter } = event;
    if (form.getAttribute("method") !== "post") return; // not form.method: a field may have that name
    if (sent.has(form)) {
      event.preventDefault();
      event.stopImmediatePropagation();
      return;
    }
    // Deferred: submissions by script or with a confirmation have been prevented by then.
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

// A page restored from the back/forward cache is in the state in which it was left.
addEventListener("pageshow", ({ persisted }) => {
  if (!persisted) return;
  sent = new WeakSet();
  for (const button of document.querySelectorAll("form[method=post] [aria-busy]")) button.removeAttribute("aria-busy");
});
