// data-opens="dialog-id" opens a native dialog, data-closes closes the one around it.
// data-confirm="What happens?" on a form, a button or a link asks first; data-confirm-yes is the word on the button.

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens]");
  if (opener) {
    event.preventDefault();
    document.getElementById(opener.dataset.opens)?.showModal();
    return;
  }
  const closer = event.target.closest("[data-closes]");
  if (closer) closer.closest("dialog")?.close();
  // A click on the backdrop lands on the dialog itself, outside its box.
  else if (event.target instanceof HTMLDialogElement && event.target.open && isOutside(event)) event.target.close();
});

// Updates that arrive while a dialog is open don't replace it: somebody may be typing in it.
document.addEventListener("htmx:oobBeforeSwap", (event) => {
  if (event.detail.target.matches("dialog[open]")) event.detail.shouldSwap = false;
});

function isOutside({ target, clientX, clientY }) {
  const box = target.getBoundingClientRect();
  return clientX < box.left || clientX > box.right || clientY < box.top || clientY > box.bottom;
}

/** Asks in a dialog; resolves to whether the person agreed. */
function confirm(question, { yes = "Continue", danger = false } = {}) {
  const dialog = document.getElementById("confirm");
  dialog.querySelector("[data-question]").textContent = question;
  const button = dialog.querySelector("[value=yes]");
  button.textContent = yes;
  button.classList.toggle("danger", danger);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

function ask(element) {
  const { confirm: question, confirmYes, confirmDanger } = element.dataset;
  return confirm(question, { yes: confirmYes, danger: confirmDanger !== undefined });
}

const agreed = new WeakSet();

document.addEventListener(
  "submit",
  async (event) => {
    const form = event.target;
    const asking = event.submitter?.matches("[data-confirm]")
      ? event.submitter
      : form.matches("[data-confirm]")
        ? form
        : null;
    if (!asking || agreed.delete(form)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const { submitter } = event;
    if (!(await ask(asking))) return;
    // A live part may have been swapped during the confirmation: the page then has a new copy of the same form.
    const current = form.isConnected ? form : [...document.forms].find((other) => other.action === form.action);
    if (!current) return;
    agreed.add(current);
    current.requestSubmit(sameButton(current, submitter));
  },
  { capture: true },
);

function sameButton(form, submitter) {
  const same = (button) =>
    button.type === "submit" && button.name === submitter?.name && button.value === submitter?.value;
  return submitter?.isConnected && submitter.form === form ? submitter : [...form.elements].find(same);
}

// Elements with htmx attributes outside a form.
document.addEventListener("htmx:confirm", async (event) => {
  const element = event.detail.elt;
  if (!element.matches("[data-confirm]:not(form, [type=submit])")) return;
  event.preventDefault();
  if (await ask(element)) event.detail.issueRequest(true);
});
