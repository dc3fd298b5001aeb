// Choosing a better action among those sampled from a policy at a step. The dialog can be closed while a worker runs:
// the result is announced when it arrives, and reopening the dialog shows it.
import { attach } from "../core/attach.js";
import { toast } from "../core/toast.js";
import { inWords } from "./corrections.js";
import { follow } from "./job.js";
import { addPending, pendingSteps, removePending } from "./pending_requests.js";
import { currentOf } from "./steps.js";

attach("[data-labels]", (article, signal) => {
  const opener = article.querySelector("[data-alternatives-here]");
  if (!opener) return;
  const { item, url } = article.dataset;
  const dialog = document.getElementById("alternatives");
  const words = dialog.querySelector("[data-alternatives-words]");
  const leave = dialog.querySelector("[data-alternatives-leave]");
  const bar = dialog.querySelector("[data-alternatives-progress]");
  const list = dialog.querySelector("[data-alternatives-list]");
  const asking = new Map(); // by step: what is known so far
  let shownIndex = null;

  const isShown = (index) => dialog.open && shownIndex === index;

  function open(index) {
    shownIndex = index;
    list.replaceChildren();
    dialog.showModal();
    show(asking.get(index) ?? { active: true, words: "Asking" });
    if (!asking.has(index)) ask(index);
  }

  async function ask(index) {
    asking.set(index, { active: true, words: "Asking" });
    addPending(item, "alternatives", index);
    const result = await follow(`${url}steps/${index}/alternatives/`, {}, (state) => update(index, state), { signal });
    if (signal.aborted) return;
    update(index, { ...result, active: false });
    if (result.error) {
      asking.delete(index);
      removePending(item, "alternatives", index);
    }
    if (isShown(index)) return;
    const where = `step ${index + 1}`;
    const notice = result.error
      ? toast(`No alternatives at ${where}: ${result.error}`, { tone: "attention" })
      : toast(`The alternatives at ${where} are ready.`, {
          tone: "good",
          action: { label: "Open", run: () => open(index) },
        });
    signal.addEventListener("abort", () => notice.remove()); // another item is displayed by then
  }

  function update(index, state) {
    asking.set(index, state);
    if (isShown(index)) show(state);
  }

  function show({ active, words: state, done, count, error, messages = [], policy }) {
    bar.hidden = leave.hidden = !active;
    if (active) {
      words.textContent = done ? `${state}: ${done} of ${count}` : `${state}…`;
      bar.max = count ?? 1;
      if (done) bar.value = done;
      else bar.removeAttribute("value");
      return;
    }
    words.textContent = error || "Choose the best one with its number, or none.";
    list.replaceChildren(...messages.map((message, position) => card(shownIndex, message, policy, position + 1)));
    list.querySelector("button")?.focus();
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
      removePending(item, "alternatives", index);
      article.dispatchEvent(new CustomEvent("better:chosen", { detail: { index, message, policy } }));
    });
    return button;
  }

  opener.addEventListener("click", () => open(currentOf(article)), { signal });
  for (const index of pendingSteps(item, "alternatives")) ask(index);
});
