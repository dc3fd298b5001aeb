// <button data-copy="text"> or <button data-copy-from="#id">: copies, and confirms on the button itself.
import { toast } from "./toast.js";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-from]");
  if (!button) return;
  const source = button.dataset.copyFrom && document.querySelector(button.dataset.copyFrom);
  const text = source ? (source.value ?? source.textContent) : button.dataset.copy;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    if (!copyBySelection(text)) {
      toast("The browser doesn't let this page copy. Select the text and copy it by hand.", { tone: "bad" });
      return;
    }
  }
  button.classList.add("copied");
  button.querySelector("use")?.setAttribute("href", `${document.body.dataset.icons}#check`);
  setTimeout(() => {
    button.classList.remove("copied");
    button.querySelector("use")?.setAttribute("href", `${document.body.dataset.icons}#copy`);
  }, 1500);
});

// navigator.clipboard only exists on https and localhost; plain-http servers need the legacy API.
function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.className = "unseen";
  area.value = text;
  const dialog = [...document.querySelectorAll("dialog[open]")].at(-1);
  (dialog ?? document.body).append(area); // what is outside an open dialog can't be selected
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
