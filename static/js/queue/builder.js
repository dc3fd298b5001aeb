// Form builder for questions: one card each. The JSON text is what is submitted; cards and text are kept in sync.
import "../desk/conditions.js";
import { attach } from "../core/attach.js";
import { answersOf, blank, CONDITIONED, keyOf, parsed, written } from "./question_list.js";

const POINTS = { comparison: [3, 5, 7], scale: [2, 3, 4, 5, 6, 7, 8, 9, 10] };

class Builder {
  constructor(element, signal) {
    this.element = element;
    this.text = element.querySelector("[name=questions]");
    this.cards = element.querySelector("[data-builder-cards]");
    this.card = element.querySelector("[data-builder-card]");
    this.kinds = JSON.parse(element.dataset.kinds);
    this.answered = JSON.parse(element.dataset.answered || "{}");
    this.kind = this.kindNow();
    for (const part of element.querySelectorAll("[hidden][data-builder-cards], [data-builder-tools]"))
      part.hidden = false;
    const preview = document.querySelector("[data-builder-preview]");
    if (preview) preview.hidden = false;
    element.querySelector("details").open = this.text.closest(".field").classList.contains("wrong");
    this.read();
    this.listen(signal);
  }

  get allowed() {
    return this.kinds[this.kind];
  }

  kindNow() {
    const field = document.querySelector("[name=judged]:checked, [name=judged][type=hidden]");
    return field?.value ?? Object.keys(this.kinds)[0];
  }

  /** Shows cards for the text; if cards can't represent it, they are disabled until it's fixed. */
  read() {
    const questions = parsed(this.text.value, (key) => key in this.answered);
    this.cards.inert = questions === null;
    if (questions === null) return;
    this.questions = questions;
    this.draw();
  }

  write() {
    this.text.value = written(this.questions);
    this.text.dispatchEvent(new Event("input", { bubbles: true }));
  }

  replaceText(text) {
    this.text.value = text;
    this.text.dispatchEvent(new Event("input", { bubbles: true }));
    this.read();
  }

  changeKind() {
    const before = JSON.stringify(this.allowed.usual);
    const untouched = JSON.stringify(asJson(this.text.value)) === before;
    this.kind = this.kindNow();
    if (untouched) this.replaceText(JSON.stringify(this.allowed.usual));
    else this.draw();
    if (untouched && this.questions) this.write();
  }

  draw() {
    this.cards.replaceChildren(...this.questions.map((question, index) => this.drawn(question, index)));
  }

  drawn(question, index) {
    const card = document.importNode(this.card.content, true).firstElementChild;
    card.querySelector("legend").textContent = `Question ${index + 1}`;
    card.querySelector("[data-place]").textContent = `${index + 1}`;
    const type = card.querySelector("[data-field=type]");
    if (!this.allowed.comparisons && question.type !== "comparison") type.querySelector("[value=comparison]").remove();
    card.querySelector("[data-per]").hidden = !this.allowed.steps;
    const points = card.querySelector("[data-field=points]");
    points.replaceChildren(...(POINTS[question.type] ?? []).map((count) => new Option(String(count), String(count))));
    for (const part of card.querySelectorAll("[data-for]"))
      part.hidden = !part.dataset.for.split(" ").includes(question.type);
    for (const field of card.querySelectorAll("[data-field]")) fill(field, question);
    this.drawCondition(card, question, index);
    this.lock(card, question);
    return card;
  }

  drawCondition(card, question, index) {
    const select = card.querySelector("[data-field=when]");
    const candidates = this.questions
      .slice(0, index)
      .filter((each) => CONDITIONED.includes(each.type) && (each.per === "item" || question.per === "step"));
    if (question.when && !candidates.includes(question.when.of)) question.when = null;
    select.replaceChildren(
      new Option("always", ""),
      ...candidates.map((each) => new Option(`only if “${each.name}” is …`, String(this.questions.indexOf(each)))),
    );
    select.value = question.when ? String(this.questions.indexOf(question.when.of)) : "";
    const any = card.querySelector("[data-any]");
    any.hidden = !question.when;
    const legend = any.querySelector("legend");
    const boxes = question.when ? answersOf(question.when.of).map((answer) => this.box(question, answer)) : [];
    any.replaceChildren(legend, ...boxes);
    if (question.when)
      question.when.any = question.when.any.filter((each) => answersOf(question.when.of).includes(each));
  }

  box(question, answer) {
    const label = document.createElement("label");
    label.className = "check";
    const box = document.createElement("input");
    Object.assign(box, { type: "checkbox", checked: question.when.any.includes(answer) });
    box.addEventListener("change", () => {
      const { of, any } = question.when;
      question.when.any = answersOf(of).filter((each) => (each === answer ? box.checked : any.includes(each)));
      this.write();
    });
    label.append(box, ` ${answer}`);
    return label;
  }

  /** Answered questions can't change. */
  lock(card, question) {
    const answers = this.answered[keyOf(question)];
    if (!answers || !question.key) return;
    for (const name of ["type", "name", "points", "low", "high", "per"])
      card.querySelector(`[data-field=${name}]`).disabled = true;
    card.querySelector("[data-remove]").disabled = true;
    const words = card.querySelector("[data-locked]");
    words.hidden = false;
    words.textContent = `${answers.toLocaleString()} answer${answers > 1 ? "s" : ""}: it can't be removed, and its text, type, and points can't be changed.${question.type.startsWith("choice") ? " Options can be added." : ""}`;
  }

  cardIndex(element) {
    return [...this.cards.children].indexOf(element.closest(".builder-card"));
  }

  /** Redraws after a structural change, keeping the focus on the same control of the card at `index`. */
  changed(index, selector) {
    this.draw();
    this.write();
    const card = this.cards.children[Math.min(index, this.questions.length - 1)];
    const control = card?.querySelector(selector);
    (control && !control.disabled ? control : (card?.querySelector("input:not(:disabled)") ?? this.add)).focus();
  }

  get add() {
    return this.element.querySelector("[data-builder-add]");
  }

  insert(index, question) {
    this.questions.splice(index, 0, question);
    this.changed(index, "[data-field=name]");
  }

  move(index, by) {
    const to = index + by;
    if (to < 0 || to >= this.questions.length) return;
    this.questions.splice(to, 0, ...this.questions.splice(index, 1));
    this.changed(to, `[data-move="${by}"]`);
  }

  remove(index) {
    const [gone] = this.questions.splice(index, 1);
    for (const each of this.questions) if (each.when?.of === gone) each.when = null;
    this.changed(index, "[data-remove]");
  }

  edit(field) {
    const index = this.cardIndex(field);
    const question = this.questions[index];
    const name = field.dataset.field;
    if (name === "required") question.required = field.checked;
    else if (name === "per") question.per = field.checked ? "step" : "item";
    else if (name === "points") question.points = Number(field.value);
    else if (name === "options") question.options = linesOf(field.value);
    else if (name === "when") question.when = field.value === "" ? null : { of: this.questions[field.value], any: [] };
    else question[name] = field.value;
    if (name === "type" && field.value in POINTS && !POINTS[field.value].includes(question.points)) question.points = 5;
    if (name === "type") this.changed(index, "[data-field=type]");
    else {
      for (const [at, card] of [...this.cards.children].entries()) this.drawCondition(card, this.questions[at], at);
      this.write();
    }
  }

  listen(signal) {
    const { element, cards } = this;
    cards.addEventListener("input", ({ target }) => target.dataset.field && this.edit(target), { signal });
    cards.addEventListener("click", ({ target }) => this.press(target.closest("button")), { signal });
    cards.addEventListener("keydown", (event) => this.pressKey(event), { signal });
    this.add.addEventListener(
      "click",
      () => this.insert(this.questions.length, { ...blank(this.allowed.comparisons ? "comparison" : "scale") }),
      { signal },
    );
    this.text.addEventListener("input", (event) => event.isTrusted && this.read(), { signal });
    document.addEventListener("change", ({ target }) => target.name === "judged" && this.changeKind(), { signal });
    element
      .querySelector("[data-builder-export]")
      .addEventListener("click", () => download(this.text.value), { signal });
    element.querySelector("[data-builder-import]").addEventListener(
      "change",
      async ({ target }) => {
        const [file] = target.files;
        if (file) this.replaceText(await file.text());
        target.value = "";
      },
      { signal },
    );
  }

  press(button) {
    if (!button) return;
    const index = this.cardIndex(button);
    if (button.dataset.move) this.move(index, Number(button.dataset.move));
    else if (button.dataset.remove !== undefined) this.remove(index);
    else if (button.dataset.duplicate !== undefined) {
      const { name, options, when, ...rest } = this.questions[index];
      const copy = { ...rest, key: "", name: `${name} (copy)`, options: [...options], when: when && { ...when } };
      this.insert(index + 1, copy);
    }
  }

  pressKey(event) {
    if (event.key === "Enter" && event.target.matches("input:not([type=checkbox])")) event.preventDefault(); // it would submit the form
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!event.altKey || !by) return;
    event.preventDefault();
    this.move(this.cardIndex(event.target), by);
  }
}

function fill(field, question) {
  const name = field.dataset.field;
  if (name === "when") return;
  if (name === "required") field.checked = question.required;
  else if (name === "per") field.checked = question.per === "step";
  else field.value = name === "options" ? question.options.join("\n") : question[name];
}

function linesOf(text) {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
}

function asJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function download(text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "questions.json";
  link.click();
  URL.revokeObjectURL(link.href);
}

attach("[data-builder]", (element, signal) => new Builder(element, signal));
