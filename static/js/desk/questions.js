// Questions that are answered with a digit: 1 is the first answer of the question that is current, and the next one becomes current.
import { bind } from "../core/keys.js";

const GROUP = "Questions";
/** How long an answer that was tapped is seen before the next question comes. */
const GLIMPSE_MS = 200;

export class Questions {
  /** `enabled()`: whether digits answer now. `ended()` is called after the last question. */
  constructor(container, { signal, enabled = () => true, ended = () => {} }) {
    this.container = container;
    this.all = [...container.querySelectorAll("[data-question]")];
    this.ended = ended;
    this.at = -1;
    if (!this.all.length) return;
    const most = Math.max(...this.all.map((question) => this.answersOf(question).length));
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
    bind({ keys: "Backspace", label: "Take this answer back", group: GROUP, run: () => this.clear(), enabled, signal });
    bind({
      keys: "l",
      label: "Next question",
      group: GROUP,
      run: () => this.go(this.at + 1),
      enabled,
      repeat: true,
      signal,
    });
    bind({
      keys: "h",
      label: "Previous question",
      group: GROUP,
      run: () => this.go(this.at - 1),
      enabled,
      repeat: true,
      signal,
    });
    container.addEventListener(
      "change",
      ({ target }) => this.show(this.all.indexOf(target.closest("[data-question]"))),
      { signal },
    );
    const tapped = ({ pointerType, target }) => {
      if (pointerType === "touch" && target.type === "radio") setTimeout(() => this.go(this.at + 1), GLIMPSE_MS);
    };
    container.addEventListener("click", tapped, { signal });
  }

  answersOf(question) {
    return [...question.querySelectorAll("input[type=radio]")];
  }

  isAnswered(question) {
    return this.answersOf(question).some((radio) => radio.checked);
  }

  firstOpen() {
    return this.all.findIndex((question) => !this.isAnswered(question));
  }

  /** The name of the first question that must be answered and is not; makes it current. */
  missing() {
    const place = this.all.findIndex(
      (question) => question.dataset.required !== undefined && !this.isAnswered(question),
    );
    if (place < 0) return "";
    this.go(place);
    return this.all[place].querySelector("legend").textContent;
  }

  go(place) {
    this.show(Math.min(Math.max(place, 0), this.all.length - 1));
    this.all[this.at]?.scrollIntoView({ block: "nearest", inline: "start" });
  }

  /** Shows which question is current; −1 is none. */
  show(place) {
    this.all[this.at]?.classList.remove("current");
    this.at = place;
    this.all[place]?.classList.add("current");
  }

  answer(place) {
    const radio = this.answersOf(this.all[this.at] ?? this.all[0])[place];
    if (!radio) return;
    const here = Math.max(this.at, 0);
    radio.checked = true;
    this.tell(radio);
    if (here < this.all.length - 1) this.go(here + 1);
    else this.ended();
  }

  clear() {
    const question = this.all[this.at];
    if (!question) return;
    for (const radio of this.answersOf(question)) radio.checked = false;
    this.tell(question);
  }

  tell(element) {
    element.dispatchEvent(new Event("input", { bubbles: true }));
  }
}
