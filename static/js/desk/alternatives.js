// Choosing a better action among those that a policy was sampled to take at a step.
import { attach } from "../core/attach.js";
import { inWords } from "./corrections.js";
import { follow } from "./job.js";
import { currentOf } from "./steps.js";

attach("[data-labels]", (article, signal) => {
  const opener = article.querySelector("[data-alternatives-here]");
  if (!opener) return;
  const dialog = document.getElementById("alternatives");
  const words = dialog.querySelector("[data-alternatives-words]");
  const bar = dialog.querySelector("[data-alternatives-progress]");
  const list = dialog.querySelector("[data-alternatives-list]");

  async function open(index) {
    const closed = new AbortController();
    dialog.addEventListener("close", () => closed.abort(), { once: true });
    list.replaceChildren();
    words.textContent = "Asking…";
    dialog.showModal();
    const told = await follow(`${article.dataset.url}steps/${index}/alternatives/`, {}, show, {
      signal: closed.signal,
    });
    bar.hidden = true;
    if (closed.signal.aborted) return;
    words.textContent = told.error || "Choose the best one with its number, or none.";
    list.append(...(told.messages ?? []).map((message, place) => card(index, message, told.policy, place + 1)));
    list.querySelector("button")?.focus();
  }

  function show({ words: state, done, count }) {
    words.textContent = done ? `${state}: ${done} of ${count}` : `${state}…`;
    bar.hidden = false;
    bar.max = count;
    bar.value = done;
  }

  function card(index, message, policy, number) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "alternative" });
    button.dataset.key = String(number);
    button.dataset.keyLabel = `Choose alternative ${number}`;
    const kbd = document.createElement("kbd");
    kbd.textContent = number;
    const text = document.createElement("pre");
    text.textContent = inWords(message) || "(says nothing)";
    button.append(kbd, text);
    button.addEventListener("click", () => {
      dialog.close();
      article.dispatchEvent(new CustomEvent("better:chosen", { detail: { index, message, policy } }));
    });
    return button;
  }

  opener.addEventListener("click", () => open(currentOf(article)), { signal });
});
