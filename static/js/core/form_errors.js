// After a refused form, focuses the first invalid field, or the message if no field is at fault.

const CONTROLS = "input:not([type=hidden]), select, textarea";
const MESSAGES = ":is(form .notice.bad, p.error):not([data-sample] *)";

/** Focuses the first error in `root`, if there is one. */
export function focusFirstError(root) {
  const wrong = [...root.querySelectorAll(".wrong:not([data-sample] *)")]; // the gallery shows sample forms that were never submitted
  for (const { parentElement } of wrong) parentElement.closest("details:not([open])")?.setAttribute("open", "");
  const target = wrong.find(isShown) ?? [...root.querySelectorAll(MESSAGES)].find(isShown);
  if (!target) return;
  const dialog = target.closest("dialog");
  if (dialog?.open && !dialog.matches(":modal")) {
    dialog.close();
    dialog.showModal(); // the server can only render it open in the page, not as a modal
  }
  const control = target.querySelector(":checked:not(option)") ?? target.querySelector(CONTROLS) ?? target;
  if (control === target) target.tabIndex = -1;
  control.focus({ preventScroll: true });
  target.scrollIntoView({ block: "nearest" });
}

// Fields of methods other than the chosen one are in the page, too.
function isShown(element) {
  return element.getClientRects().length > 0;
}

focusFirstError(document);

// Only when a partial was swapped after a form submission, not while typing.
document.addEventListener("htmx:afterSettle", ({ detail }) => {
  if (detail.xhr?.status !== 422 || detail.requestConfig?.triggeringEvent?.type !== "submit") return;
  focusFirstError(document.getElementById(detail.target.id) ?? detail.target);
});
