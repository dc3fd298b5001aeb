// Questions answered with digits: 1 is the first answer of the current question, and then the next question becomes current.
import { bind } from "../core/keys.js";

const GROUP = "Questions";
/** How long a tapped answer is shown before the next question. */
const GLIMPSE_MS = 200;

export class Questions {
  /** `enabled()`: whether digits currently answer. `ended()` is called after the last question. */
  constructor(container, { signal, enabled = () => true, ended = () => {} }) {
    this.container = container;
    this.every = [...container.querySelectorAll("[data-question]")];
    this.ended = ended;
    this.current = null;
    if (!this.every.length) return;
    const most = Math.max(...this.every.map((question) => this.answersOf(question).length));
    for (let digit = 1; digit <= Math.min(most, 10); digit++) {
      bind({
        keys: String(digit % 10),
        label: `Answer ${digit}`,
        group: GROUP,
        run: () => this.answer(digit - 1),
        enabled,
        inside: container,
        signal,
      });
    }
    const press = (keys, label, run, repeat) =>
      bind({ keys, label, group: GROUP, run, enabled, repeat, inside: container, signal });
    press("Backspace", "Clear this answer", () => this.clear());
    press("l", "Next question", () => this.go(this.at + 1), true);
    press("h", "Previous question", () => this.go(this.at - 1), true);
    this.listen(signal);
  }

  /** The questions that currently apply: conditional ones come and go. */
  get all() {
    return this.every.filter((question) => !question.hidden);
  }

  get at() {
    return this.all.indexOf(this.current);
  }

  listen(signal) {
    const { container } = this;
    container.addEventListener("change", ({ target }) => this.mark(target.closest("[data-question]")), { signal });
    container.addEventListener(
      "focusin",
      ({ target }) => target.matches("textarea") && this.mark(target.closest("[data-question]")),
      { signal },
    );
    const tapped = ({ pointerType, target }) => {
      if (pointerType === "touch" && target.type === "radio") setTimeout(() => this.go(this.at + 1), GLIMPSE_MS);
    };
    container.addEventListener("click", tapped, { signal });
    container.addEventListener("keydown", (event) => this.leaveText(event), { signal });
  }

  /** Enter in a text goes to the next question, or back to reading; Shift+Enter inserts a line break. */
  leaveText(event) {
    if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.metaKey || event.isComposing) return;
    if (!event.target.matches("textarea")) return;
    event.preventDefault();
    event.stopPropagation();
    event.target.blur();
    this.advance();
  }

  answersOf(question) {
    return [...question.querySelectorAll("input")];
  }

  isAnswered(question) {
    const text = question.querySelector("textarea");
    return text ? text.value.trim() !== "" : this.answersOf(question).some((input) => input.checked);
  }

  firstOpen() {
    return this.all.findIndex((question) => !this.isAnswered(question));
  }

  /** The name of the item's first unanswered required question, which becomes current. */
  missing() {
    const open = this.all.find(
      (question) =>
        question.dataset.required !== undefined && question.dataset.perStep === undefined && !this.isAnswered(question),
    );
    if (!open) return "";
    this.go(this.all.indexOf(open));
    return open.querySelector("legend").textContent;
  }

  go(index) {
    this.show(Math.min(Math.max(index, 0), this.all.length - 1));
    this.current?.scrollIntoView({ block: "nearest", inline: "start" });
    this.current?.querySelector("textarea")?.focus({ preventScroll: true });
  }

  /** Marks the current question; −1 is none. */
  show(index) {
    this.mark(this.all[index] ?? null);
  }

  mark(question) {
    this.current?.classList.remove("current");
    this.current = question;
    question?.classList.add("current");
  }

  answer(index) {
    const input = this.answersOf(this.current ?? this.all[0])[index];
    if (!input) return;
    this.mark(input.closest("[data-question]"));
    input.checked = input.type === "radio" || !input.checked;
    this.dispatchInput(input);
    if (input.type === "radio") this.advance(); // a multiple choice may get more answers: l moves on
  }

  advance() {
    if (this.at < this.all.length - 1) this.go(this.at + 1);
    else this.ended();
  }

  clear() {
    if (!this.current) return;
    for (const input of this.answersOf(this.current)) input.checked = false;
    this.dispatchInput(this.current);
  }

  dispatchInput(element) {
    element.dispatchEvent(new Event("input", { bubbles: true }));
  }
}
