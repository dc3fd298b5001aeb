// A conditional question is only shown while its condition holds; hidden questions are not submitted.
import { attach } from "../core/attach.js";

/** Shows the applicable questions and hides the rest. */
export function showAsked(container) {
  for (const question of container.querySelectorAll("[data-when]")) {
    const isAsked = JSON.parse(question.dataset.anyOf).some((value) => valuesOf(container, question).includes(value));
    question.hidden = !isAsked;
    question.disabled = !isAsked;
  }
}

/** The answers to the question that `question` depends on; answers to a hidden question don't count. */
function valuesOf(container, question) {
  const fields = [...container.querySelectorAll(`[name="${CSS.escape(question.dataset.when)}"]`)];
  return fields.filter((field) => field.checked && !field.closest("[hidden]")).map((field) => field.value);
}

attach("[data-conditions]", (container, signal) => {
  const show = () => showAsked(container);
  container.addEventListener("input", show, { signal });
  container.closest("[data-item]")?.addEventListener("draft:restored", show, { signal });
  show();
});
