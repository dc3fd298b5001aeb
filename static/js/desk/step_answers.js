// Questions asked at every step: shown once in the answer bar, with the answers for the current step. The form field
// holds the answers for all steps as JSON, so that drafts, submission, and undo treat them like any field.
import { attach } from "../core/attach.js";
import { showAsked } from "./conditions.js";
import { countOf, currentOf, goTo } from "./steps.js";

class StepAnswers {
  constructor(field, signal) {
    this.field = field;
    this.article = field.closest("[data-item]");
    this.questions = [...this.article.querySelectorAll("[data-per-step]")];
    if (!this.questions.length) return;
    this.container = this.questions[0].closest("[data-questions]");
    this.read();
    const on = (type, run) => this.article.addEventListener(type, run, { signal });
    on("walk:at", () => this.show());
    on("draft:restored", () => this.read());
    on("desk:check", ({ detail }) => (detail.problem ||= this.problem()));
    this.container.addEventListener("input", ({ target }) => target.closest("[data-per-step]") && this.keep(), {
      signal,
    });
  }

  read() {
    const rows = JSON.parse(this.field.value || "[]");
    this.answers = new Map(rows.map(({ index, answers }) => [index, answers]));
    this.show();
  }

  show(index = currentOf(this.article)) {
    const answers = this.answers.get(index) ?? {};
    for (const question of this.questions) {
      const selected = [answers[question.dataset.question] ?? []].flat().map(String);
      for (const input of question.querySelectorAll("input")) input.checked = selected.includes(input.value);
      const text = question.querySelector("textarea");
      if (text) text.value = selected[0] ?? "";
      question.querySelector("[data-at-step]").textContent = `step ${index + 1}`;
    }
    showAsked(this.container);
    this.container.dispatchEvent(new CustomEvent("questions:shown", { bubbles: true }));
  }

  keep() {
    showAsked(this.container);
    const answers = Object.fromEntries(
      this.questions
        .filter((question) => !question.hidden)
        .map((question) => [question.dataset.question, answerOf(question)])
        .filter(([, answer]) => answer !== null),
    );
    if (Object.keys(answers).length) this.answers.set(currentOf(this.article), answers);
    else this.answers.delete(currentOf(this.article));
    const rows = [...this.answers].map(([index, stepAnswers]) => ({ index, answers: stepAnswers }));
    this.field.value = JSON.stringify(rows.sort((x, y) => x.index - y.index));
  }

  /** The first required question unanswered at some step; makes that step current. */
  problem() {
    // Only the questions are changed on the way: going to thousands of steps, each with a layout of the page, would take minutes.
    for (let index = 0; index < this.needed(); index++) {
      this.show(index);
      const open = this.questions.find(
        (question) => question.dataset.required !== undefined && !question.hidden && answerOf(question) === null,
      );
      if (!open) continue;
      goTo(this.article, index, { focus: false });
      return `Answer “${open.querySelector("legend").textContent}” at step ${index + 1} first.`;
    }
    this.show();
    return "";
  }

  /** How many steps, from the first, need answers. */
  needed() {
    const { ending, first_error: first } = this.article.querySelector("[data-answer]").elements;
    if (["bad_problem", "give_up"].includes(ending?.value)) return 0;
    return first?.value ? Number(first.value) + 1 : countOf(this.article);
  }
}

/** A question's answer in the server's format; null if it has none. */
function answerOf(question) {
  const chosen = [...question.querySelectorAll("input:checked")].map((input) => input.value);
  switch (question.dataset.type) {
    case "scale":
      return chosen.length ? Number(chosen[0]) : null;
    case "choice":
      return chosen[0] ?? null;
    case "choices":
      return chosen.length ? chosen : null;
    default:
      return question.querySelector("textarea").value.trim() || null;
  }
}

attach("[data-step-answers]", (field, signal) => new StepAnswers(field, signal));
