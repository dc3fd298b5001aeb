// Step labels: good, neutral, or bad, the first error, critiques, and marked text. The answer's form holds them
// as JSON, so drafts, submission, and undo treat them like any field.
import { attach } from "../core/attach.js";
import { toast } from "../core/toast.js";
import { forgetHighlights, highlight, selectedSpan, typedSpan } from "./spans.js";
import { cellOf, countOf, currentOf, goTo, rowOf } from "./steps.js";

const WORDS = { "-1": "bad", 0: "neutral", 1: "good" };
const MANY = 5;

class Labels {
  constructor(article, signal) {
    this.article = article;
    this.form = article.querySelector("[data-answer]");
    this.signal = signal;
    this.read();
    this.listen();
    this.goToNextOpen();
  }

  read() {
    const { labels, first_error: first } = this.form.elements;
    this.labels = new Map(JSON.parse(labels.value || "[]").map((label) => [label.index, label]));
    this.firstError = first.value === "" ? null : Number(first.value);
    this.paintAll();
  }

  write() {
    const { labels, first_error: first } = this.form.elements;
    labels.value = JSON.stringify([...this.labels.values()].filter(isWorthKeeping).sort((x, y) => x.index - y.index));
    first.value = this.firstError ?? "";
    this.form.dispatchEvent(new Event("input", { bubbles: true }));
  }

  of(index) {
    if (!this.labels.has(index))
      this.labels.set(index, { index, value: null, is_filled: false, critique: "", spans: [] });
    return this.labels.get(index);
  }

  ending(value) {
    for (const radio of this.form.querySelectorAll("[name=ending]")) radio.checked = radio.value === value;
  }

  /** Goes to where work was left off. */
  goToNextOpen() {
    const index = this.firstError ?? this.missing()[0];
    if (this.labels.size && index !== undefined) goTo(this.article, index, { focus: false });
  }

  label(index, value) {
    Object.assign(this.of(index), { value, is_filled: false });
    if (index === this.firstError && value !== -1) this.noError();
    this.changed([index]);
    this.say(`Step ${index + 1}: ${value === null ? "no label" : WORDS[value]}`);
  }

  labelAndGoOn(value) {
    const index = currentOf(this.article);
    this.label(index, value);
    goTo(this.article, Math.min(index + 1, countOf(this.article) - 1));
  }

  /** Sets the first error: unlabeled steps before it become good, and those after it bad. The same step again removes it. */
  markFirstError(index) {
    const isRepeated = index === this.firstError;
    this.noError();
    if (!isRepeated) {
      this.firstError = index;
      for (let i = 0; i < countOf(this.article); i++) {
        const label = this.of(i);
        if (i === index) Object.assign(label, { value: -1, is_filled: false });
        else if (label.value === null) Object.assign(label, { value: i < index ? 1 : -1, is_filled: true });
      }
      this.ending("found_error");
    }
    this.paintAll();
    this.write();
    this.say(isRepeated ? "No first error" : `Step ${index + 1} is the first error; the rest is filled in`);
  }

  /** Removes the first error, with the labels derived from it. */
  noError() {
    if (this.firstError === null) return;
    this.firstError = null;
    for (const label of this.labels.values())
      if (label.is_filled) Object.assign(label, { value: null, is_filled: false });
    if (this.form.elements.ending.value === "found_error") this.ending(null);
    this.paintAll();
  }

  missing() {
    const until = this.firstError === null ? countOf(this.article) : this.firstError + 1;
    return Array.from({ length: until }, (_, index) => index).filter(
      (index) => (this.labels.get(index)?.value ?? null) === null,
    );
  }

  problem() {
    const ending = this.form.elements.ending.value;
    const lonely = [...this.labels.values()].find((label) => label.value === null && isWorthKeeping(label));
    if (!ending) return "Say how it ended: x on the first error, v solved, b bad task, n give up.";
    if (ending === "found_error" && this.firstError === null) return "Go to the first wrong step and press x.";
    if (lonely) return `Step ${lonely.index + 1} has a note but no label: press 1, 2 or 3 there.`;
    const missing = this.article.dataset.everyStep && ["found_error", "solved"].includes(ending) ? this.missing() : [];
    if (!missing.length) return "";
    const numbers = missing
      .slice(0, MANY)
      .map((index) => index + 1)
      .join(", ");
    goTo(this.article, missing[0]);
    return `Label step ${numbers}${missing.length > MANY ? ` and ${missing.length - MANY} more` : ""} first.`;
  }

  critique(index) {
    const notes = this.notesOf(index);
    let field = notes.querySelector("[data-critique]");
    if (!field) {
      field = document.createElement("textarea");
      Object.assign(field, {
        className: "input",
        rows: 2,
        maxLength: 20000,
        placeholder: "What is wrong or right here?",
      });
      field.dataset.critique = "";
      field.setAttribute("aria-label", `Critique of step ${index + 1}`);
      field.value = this.of(index).critique;
      notes.prepend(field);
    }
    notes.hidden = false;
    return field;
  }

  criticized(field) {
    this.of(Number(field.closest(".walk-row").dataset.row)).critique = field.value;
    this.write();
  }

  markWords(index) {
    const span = selectedSpan(rowOf(this.article, index));
    if (span) this.addSpan(index, span);
    else this.askForWords(index);
  }

  addSpan(index, span) {
    this.of(index).spans.push(span);
    getSelection().removeAllRanges();
    this.changed([index]);
    this.say(`Marked “${span.quote.slice(0, 80)}”`);
  }

  /** Keyboard alternative: the text to mark is typed. */
  askForWords(index) {
    const notes = this.notesOf(index);
    const field = document.createElement("input");
    Object.assign(field, {
      className: "input",
      placeholder: "Select text with the mouse, or type it here and press Enter",
    });
    field.setAttribute("aria-label", `Text of step ${index + 1} to mark`);
    this.signal.addEventListener("abort", () => field.remove());
    const done = () => {
      field.remove();
      this.paint(index);
      rowOf(this.article, index).focus({ preventScroll: true });
    };
    field.addEventListener("keydown", (event) => {
      if (event.isComposing || (event.key !== "Enter" && event.key !== "Escape")) return;
      event.preventDefault();
      event.stopPropagation();
      const span = event.key === "Enter" && field.value ? typedSpan(rowOf(this.article, index), field.value) : null;
      if (event.key === "Enter" && field.value && !span) toast("This text is not in this step.", { tone: "attention" });
      if (span) this.addSpan(index, span);
      done();
    });
    notes.append(field);
    notes.hidden = false;
    field.focus();
  }

  notesOf(index) {
    return rowOf(this.article, index).querySelector("[data-notes]");
  }

  changed(indices) {
    for (const index of indices) this.paint(index);
    this.write();
  }

  paintAll() {
    for (let index = 0; index < countOf(this.article); index++) this.paint(index);
  }

  paint(index) {
    const label = this.labels.get(index);
    const value = label?.value ?? "";
    const marks = {
      value: String(value),
      filled: label?.is_filled ? "1" : "",
      first: index === this.firstError ? "1" : "",
    };
    const row = rowOf(this.article, index);
    // A run may have thousands of steps, of which a key changes one: the others aren't updated.
    if (Object.entries(marks).some(([name, mark]) => (row.dataset[name] ?? "") !== mark)) {
      for (const element of [row, cellOf(this.article, index)]) Object.assign(element.dataset, marks);
      for (const radio of row.querySelectorAll(".walk-label input")) radio.checked = radio.value === marks.value;
    }
    if (label?.critique) this.critique(index).value = label.critique;
    this.paintSpans(index, label?.spans ?? []);
  }

  paintSpans(index, spans) {
    const notes = this.notesOf(index);
    if (!notes.hidden) notes.querySelector("[data-spans]")?.remove();
    if (spans.length) {
      const list = document.createElement("ul");
      list.className = "plain walk-spans";
      list.dataset.spans = "";
      list.append(...spans.map((span, position) => this.quoteOf(index, span, position)));
      notes.append(list);
      notes.hidden = false;
    }
    highlight(this.article, index, spans);
  }

  quoteOf(index, span, position) {
    const item = document.createElement("li");
    const words = document.createElement("q");
    words.textContent = span.quote;
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "button quiet", textContent: "remove" });
    button.setAttribute("aria-label", `Remove the mark on “${span.quote.slice(0, 80)}”`);
    button.addEventListener("click", () => {
      this.of(index).spans.splice(position, 1);
      this.changed([index]);
    });
    item.append(words, " ", button);
    return item;
  }

  say(words) {
    this.article.querySelector("[data-walk-says]").textContent = words;
  }

  listen() {
    const { article, signal } = this;
    signal.addEventListener("abort", () => forgetHighlights(article));
    const on = (type, handle, options = {}) => article.addEventListener(type, handle, { signal, ...options });
    on("draft:restored", () => {
      this.read();
      this.goToNextOpen();
    });
    on("desk:check", ({ detail }) => (detail.problem ||= this.problem()));
    on(
      "better:kept",
      ({ detail }) => (this.labels.get(detail.index)?.value ?? null) === null && this.label(detail.index, -1),
    );
    on("walk:opened", ({ detail }) => this.paint(detail.index));
    on("change", ({ target }) => this.changedByHand(target));
    // Not a listener of the field's own: it outlasts this object if the item is set aside and shown again.
    on("input", ({ target }) => target.matches("[data-critique]") && this.criticized(target));
    // A click must not clear the selection or move the focus: Enter is for submitting.
    on("pointerdown", (event) => event.target.closest(".walk-now button") && event.preventDefault());
    on("click", ({ target }) => {
      const index = currentOf(article);
      const value = target.closest("[data-label]")?.dataset.label;
      if (value !== undefined) this.labelAndGoOn(Number(value));
      else if (target.closest("[data-first-error]")) this.markFirstError(index);
      else if (target.closest("[data-unlabel]")) this.label(index, null);
      else if (target.closest("[data-critique-here]")) this.critique(index).focus();
      else if (target.closest("[data-mark-words]")) this.markWords(index);
    });
  }

  changedByHand(target) {
    if (target.matches(".walk-label input"))
      this.label(Number(target.closest(".walk-row").dataset.row), Number(target.value));
    else if (target.name === "ending" && target.value === "found_error" && this.firstError === null)
      this.markFirstError(currentOf(this.article));
    else if (target.name === "ending" && target.value !== "found_error" && this.firstError !== null) {
      this.noError();
      this.ending(target.value);
      this.write();
    }
  }
}

function isWorthKeeping({ value, critique, spans }) {
  return value !== null || critique !== "" || spans.length > 0;
}

attach("[data-labels]", (article, signal) => new Labels(article, signal));
