// Toasts: transient messages. From a module: toast("Copied"). From a view: the event `toast` in HX-Trigger, with {text, tone}.
// After a redirect: Django's messages, rendered into the region by base.html.
import { attach } from "./attach.js";
import { icon } from "./icon.js";

const ICONS = { good: "check", bad: "alert", attention: "alert", plain: "info" };
const SECONDS = 6;

/** Shows `text` for a few seconds, replacing a toast with the same text; errors stay until closed. Returns the element, which can be removed earlier. */
export function toast(text, { tone = "plain", action = null } = {}) {
  const region = document.getElementById("toasts");
  for (const other of region?.children ?? []) if (other.querySelector(".words")?.textContent === text) other.remove();
  const element = document.createElement("div");
  element.className = `toast ${tone}`;
  element.dataset.toast = "";
  const words = document.createElement("div");
  words.className = "words";
  words.textContent = text;
  element.append(icon(ICONS[tone] ?? "info"), words);
  if (action) element.append(actionButton(action, element));
  element.append(closeButton());
  region?.append(element);
  return element;
}

function actionButton({ label, run }, element) {
  const button = document.createElement("button");
  button.className = "button quiet";
  button.type = "button";
  button.textContent = label;
  button.addEventListener("click", () => {
    run();
    element.remove();
  });
  return button;
}

function closeButton() {
  const button = document.createElement("button");
  button.className = "button quiet square";
  button.type = "button";
  button.dataset.toastClose = "";
  button.setAttribute("aria-label", "Close");
  button.append(icon("x"));
  return button;
}

attach("[data-toast]", (element, signal) => {
  if (element.classList.contains("bad")) return;
  let timer = 0;
  const leave = () => (timer = setTimeout(() => element.remove(), SECONDS * 1000));
  element.addEventListener("pointerenter", () => clearTimeout(timer), { signal });
  element.addEventListener("pointerleave", leave, { signal });
  element.addEventListener("focusin", () => clearTimeout(timer), { signal });
  leave();
});

document.addEventListener("click", (event) =>
  event.target.closest("[data-toast-close]")?.closest("[data-toast]")?.remove(),
);
document.addEventListener("toast", ({ detail }) => toast(detail.text ?? detail.value, { tone: detail.tone }));
