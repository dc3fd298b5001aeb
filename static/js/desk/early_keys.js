// Keys that were pressed while the next item, or one that an undo brings back, was still on its way. Nobody can judge what they haven't seen, so they are not
// used; but their person is told, or they would believe that they had answered.
import { keyOf, printed } from "../core/keys.js";

const ELSEWHERE = "a, button, input, textarea, select, dialog";

export class EarlyKeys {
  constructor(desk, say, signal) {
    this.desk = desk;
    this.say = say;
    this.key = "";
    document.addEventListener("keydown", (event) => this.hear(event), { signal });
  }

  hear(event) {
    // keys.js listened before: what works without an item, such as the key of undo, is prevented by now.
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (!this.desk.querySelector("[data-desk-coming], [data-item][inert]") || event.target.closest(ELSEWHERE)) return;
    const key = keyOf(event);
    if (key !== "Enter" && key.length !== 1) return;
    this.key = printed(key).join("");
    this.say(`“${this.key}” came too early: the item is still loading.`);
  }

  /** What to say now that the item is here; "" where no key came before it. */
  takeWords() {
    const words = this.key ? `“${this.key}” came before this item was here and wasn't used.` : "";
    this.key = "";
    return words;
  }
}
