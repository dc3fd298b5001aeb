// Questions that are answered with a digit: 1 is the first answer of the question that is current, and the next one becomes current.
import { bind } from "../core/keys.js";

const GROUP = "Questions";
/** How long an answer that was tapped is seen before the next question comes. */
const GLIMPSE_MS = 200;

export class Questions {
  /** `enabled()`: whether digits answer now. `ended()` is called after the last question. */
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
        signal,
      });
    }
    const press = (keys, label, run, repeat) => bind({ keys, label, group: GROUP, run, enabled, repeat, signal });
    press("Backspace", "Take this answer back", () => this.clear());
    press("l", "Next question", () => this.go(this.at + 1), true);
    press("h", "Previous question", () => this.go(this.at - 1), true);
    this.listen(signal);
  }

  /** Those that are asked now: what depends on another answer comes and goes. */
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

  /** Enter in a text goes on to the next question, or back to reading; Shift with Enter is a new line. */
  leaveText(event) {
    if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.metaKey || event.isComposing) return;
    if (!event.target.matches("textarea")) return;
    event.preventDefault();
    event.stopPropagation();
    event.target.blur();
    this.goOn();
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

  /** The name of the first question of the item that must be answered and is not; makes it current. */
  missing() {
    const open = this.all.find(
      (question) =>
        question.dataset.required !== undefined && question.dataset.perStep === undefined && !this.isAnswered(question),
    );
    if (!open) return "";
    this.go(this.all.indexOf(open));
    return open.querySelector("legend").textContent;
  }

  go(place) {
    this.show(Math.min(Math.max(place, 0), this.all.length - 1));
    this.current?.scrollIntoView({ block: "nearest", inline: "start" });
    this.current?.querySelector("textarea")?.focus({ preventScroll: true });
  }

  /** Shows which question is current; −1 is none. */
  show(place) {
    this.mark(this.all[place] ?? null);
  }

  mark(question) {
    this.current?.classList.remove("current");
    this.current = question;
    question?.classList.add("current");
  }

  answer(place) {
    const input = this.answersOf(this.current ?? this.all[0])[place];
    if (!input) return;
    this.mark(input.closest("[data-question]"));
    input.checked = input.type === "radio" || !input.checked;
    this.tell(input);
    if (input.type === "radio") this.goOn(); // of a choice of many, more may follow: l goes on
  }

  goOn() {
    if (this.at < this.all.length - 1) this.go(this.at + 1);
    else this.ended();
  }

  clear() {
    if (!this.current) return;
    for (const input of this.answersOf(this.current)) input.checked = false;
    this.tell(this.current);
  }

  tell(element) {
    element.dispatchEvent(new Event("input", { bubbles: true }));
  }
}
