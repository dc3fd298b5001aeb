// Rating a whole run: questions, a thumb, and marks on steps.
import { attach } from "../core/attach.js";
import { toast } from "../core/toast.js";
import { Questions } from "./questions.js";
import { cellOf, currentOf, rowOf } from "./steps.js";

const WORDS = { subgoal: "Sub-goal reached", soft_violation: "Soft violation", hard_violation: "Hard violation" };
const NO_THUMB = "Choose a thumb: y is up, n is down.";

class Marks {
  constructor(article, signal) {
    this.article = article;
    this.field = article.querySelector("[name=marks]");
    this.read();
    article.addEventListener("draft:restored", () => this.read(), { signal });
    article.addEventListener(
      "click",
      ({ target }) => {
        const kind = target.closest("[data-mark]")?.dataset.mark;
        if (kind) this.toggle(currentOf(article), kind);
        else if (target.closest("[data-mark-note]")) this.note(currentOf(article));
      },
      { signal },
    );
    // A click doesn't move the focus: Enter is for submitting.
    article.addEventListener(
      "pointerdown",
      (event) => event.target.closest(".walk-now button") && event.preventDefault(),
      { signal },
    );
  }

  read() {
    this.marks = JSON.parse(this.field.value || "[]");
    for (const row of this.article.querySelectorAll(".walk-row")) this.paint(Number(row.dataset.row));
  }

  write() {
    this.field.value = JSON.stringify(this.marks);
    this.field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  of(index) {
    return this.marks.filter((mark) => mark.index === index);
  }

  toggle(index, kind) {
    const existing = this.marks.find((mark) => mark.index === index && mark.kind === kind);
    if (existing) this.marks.splice(this.marks.indexOf(existing), 1);
    else this.marks.push({ index, kind, note: "" });
    this.paint(index);
    this.write();
    this.article.querySelector("[data-walk-says]").textContent =
      `Step ${index + 1}: ${WORDS[kind]}${existing ? " taken off" : ""}`;
  }

  note(index) {
    const field = [...rowOf(this.article, index).querySelectorAll("[data-notes] input")].at(-1);
    if (field) field.focus();
    else toast("Mark this step first: b, w or W.", { tone: "attention" });
  }

  paint(index) {
    const marks = this.of(index);
    cellOf(this.article, index).dataset.mark = marks.at(-1)?.kind ?? "";
    const notes = rowOf(this.article, index).querySelector("[data-notes]");
    notes.hidden = !marks.length;
    notes.replaceChildren(...marks.map((mark) => this.lineOf(mark)));
  }

  lineOf(mark) {
    const line = document.createElement("div");
    line.className = "mark-line";
    const badge = document.createElement("span");
    badge.className = `badge ${mark.kind === "subgoal" ? "good" : "bad"}`;
    badge.textContent = WORDS[mark.kind];
    const field = document.createElement("input");
    Object.assign(field, { className: "input", maxLength: 300, value: mark.note, placeholder: "Note (optional)" });
    field.setAttribute("aria-label", `Note on step ${mark.index + 1}: ${WORDS[mark.kind]}`);
    field.addEventListener("input", () => {
      mark.note = field.value;
      this.write();
    });
    line.append(badge, field);
    return line;
  }
}

attach("[data-rating]", (article, signal) => {
  if (article.querySelector("[data-mark]")) new Marks(article, signal);
  const questions = new Questions(article.querySelector("[data-questions]"), { signal });
  const begin = () => questions.show(Math.max(questions.firstOpen(), 0));
  begin();
  article.addEventListener("draft:restored", begin, { signal });
  article.addEventListener(
    "desk:check",
    ({ detail }) => {
      const missing = questions.missing();
      const thumbs = article.querySelectorAll("[name=thumb]");
      if (detail.problem) return;
      if (missing) detail.problem = `Answer “${missing}” first.`;
      else if (!questions.every.length && thumbs.length && ![...thumbs].some((thumb) => thumb.checked))
        detail.problem = NO_THUMB;
    },
    { signal },
  );
});
