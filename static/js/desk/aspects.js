// Besides the main answer: the queue's questions, which are answered with digits, and the annotator's confidence.
import { attach } from "../core/attach.js";
import { bind } from "../core/keys.js";
import { arrange, CHANGED, layout } from "./layout.js";
import { Questions } from "./questions.js";

attach("[data-aspects]", (details, signal) => {
  let active = false;
  const article = details.closest("[data-item]");
  const questions = new Questions(details, { signal, enabled: () => active, ended: leave });
  const openAsSaid = () => (details.open = layout("questions") === "open");
  openAsSaid();

  function enter() {
    active = true;
    details.open = true;
    questions.go(Math.max(questions.firstOpen(), 0));
  }

  function leave() {
    active = false;
    questions.show(-1);
  }

  function count() {
    const answered = questions.all.filter((question) => questions.isAnswered(question)).length;
    details.querySelector("[data-aspects-count]").textContent = `${answered} of ${questions.all.length}`;
  }

  bind({
    keys: details.dataset.aspectsKey,
    label: "Answer the questions, or stop",
    group: "Answer",
    run: () => (active ? leave() : enter()),
    inside: details,
    signal,
  });
  bind({
    keys: "Escape",
    label: "Stop answering the questions",
    group: "Questions",
    run: leave,
    enabled: () => active,
    inside: details,
    signal,
  });
  details.addEventListener("toggle", () => arrange("questions", details.open ? "open" : "folded"), { signal });
  document.addEventListener(CHANGED, ({ detail }) => detail.name === "questions" && openAsSaid(), { signal });
  details.addEventListener("input", count, { signal });
  details.addEventListener("questions:shown", count, { signal });
  article.addEventListener("draft:restored", count, { signal });
  article.addEventListener(
    "desk:check",
    ({ detail }) => {
      const missing = detail.problem ? "" : questions.missing();
      if (!missing) return;
      enter();
      questions.missing();
      detail.problem = `Answer “${missing}” first.`;
    },
    { signal },
  );
  count();
});

attach("[data-confidence]", (fieldset, signal) => {
  const radios = [...fieldset.querySelectorAll("input")];
  const next = () => {
    const radio = radios[(radios.findIndex((each) => each.checked) + 1) % radios.length];
    radio.checked = true;
    radio.dispatchEvent(new Event("input", { bubbles: true }));
  };
  bind({ keys: "c", label: "Next confidence level", group: "Answer", run: next, inside: fieldset, signal });
});
