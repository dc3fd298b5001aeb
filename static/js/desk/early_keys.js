// Keys pressed while the next item, or one brought back by an undo, was still loading. They are ignored, since nobody can judge what they haven't
// seen, but the annotator is told, so as not to believe that they had answered.
import { keyOf, printed } from "../core/keys.js";

const ELSEWHERE = "a, button, input, textarea, select, dialog";

export class EarlyKeys {
  constructor(desk, say, signal) {
    this.desk = desk;
    this.say = say;
    this.key = "";
    document.addEventListener("keydown", (event) => this.onKeydown(event), { signal });
  }

  onKeydown(event) {
    // keys.js handled the event first: keys that work without an item, such as undo, have been prevented by now.
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (!this.desk.querySelector("[data-desk-coming], [data-item][inert]") || event.target.closest(ELSEWHERE)) return;
    const key = keyOf(event);
    if (key !== "Enter" && key.length !== 1) return;
    this.key = printed(key).join("");
    this.say(`“${this.key}” was ignored: the item is still loading.`);
  }

  /** The message to show when the item has loaded; "" if no key was pressed before. */
  takeWords() {
    const words = this.key ? `“${this.key}” was pressed before this item had loaded and was ignored.` : "";
    this.key = "";
    return words;
  }
}
