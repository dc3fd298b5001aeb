// After a refused form the focus is on its first wrong field, or on the message where no field is to blame.

const CONTROLS = "input:not([type=hidden]), select, textarea";
const MESSAGES = ":is(form .notice.bad, p.error):not([data-sample] *)";

/** Puts the focus on what is wrong in `root`, if anything is. */
export function leadToWrong(root) {
  const wrong = [...root.querySelectorAll(".wrong:not([data-sample] *)")]; // nobody sent the form that the gallery shows
  for (const { parentElement } of wrong) parentElement.closest("details:not([open])")?.setAttribute("open", "");
  const place = wrong.find(isShown) ?? [...root.querySelectorAll(MESSAGES)].find(isShown);
  if (!place) return;
  const dialog = place.closest("dialog");
  if (dialog?.open && !dialog.matches(":modal")) {
    dialog.close();
    dialog.showModal(); // the server can only open it in the page, not over it
  }
  const control = place.querySelector(":checked:not(option)") ?? place.querySelector(CONTROLS) ?? place;
  if (control === place) place.tabIndex = -1;
  control.focus({ preventScroll: true });
  place.scrollIntoView({ block: "nearest" });
}

// Fields of another method than the chosen one are in the page, too.
function isShown(element) {
  return element.getClientRects().length > 0;
}

leadToWrong(document);

// Where a partial was swapped because somebody sent a form, and not while they typed.
document.addEventListener("htmx:afterSettle", ({ detail }) => {
  if (detail.xhr?.status !== 422 || detail.requestConfig?.triggeringEvent?.type !== "submit") return;
  leadToWrong(document.getElementById(detail.target.id) ?? detail.target);
});
