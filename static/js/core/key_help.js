// `?` lists all keys of the page, by group. A click on a key waits for a replacement key.
import { bind, boundKeys, keyOf, printed, remap } from "./keys.js";

const dialog = document.getElementById("keys");

function open() {
  fill(boundKeys());
  dialog.showModal();
}

function fill(bindings) {
  const groups = Map.groupBy ? Map.groupBy(bindings, ({ group }) => group) : groupBy(bindings);
  const sections = [...groups].map(([group, members]) => {
    const heading = document.createElement("h3");
    heading.textContent = group;
    const list = document.createElement("ul");
    list.className = "keys-list";
    list.append(...members.map((binding) => row(binding, bindings)));
    const section = document.createElement("section");
    section.append(heading, list);
    return section;
  });
  dialog.querySelector("[data-keys-list]").replaceChildren(...sections);
}

function groupBy(bindings) {
  const groups = new Map();
  for (const binding of bindings) groups.set(binding.group, [...(groups.get(binding.group) ?? []), binding]);
  return groups;
}

function row(binding, all) {
  const item = document.createElement("li");
  const words = document.createElement("span");
  words.textContent = binding.label;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button quiet keys";
  button.title = "Change this key";
  button.append(...caps(binding));
  button.addEventListener("click", () => change(binding, all, button));
  item.append(words, button);
  return item;
}

function caps({ keys }) {
  return printed(keys).map((key) => {
    const cap = document.createElement("kbd");
    cap.textContent = key;
    return cap;
  });
}

function change(binding, all, button) {
  const say = dialog.querySelector("[data-keys-say]");
  const controller = new AbortController();
  button.replaceChildren("Press a key");
  say.textContent = "Esc cancels; Backspace restores the default key.";
  const done = (words) => {
    controller.abort();
    button.replaceChildren(...caps(binding));
    say.textContent = words;
  };
  button.addEventListener("blur", () => done(""), { signal: controller.signal });
  document.addEventListener(
    "keydown",
    (event) => {
      if (["Shift", "Control", "Meta", "Alt", "Tab"].includes(event.key)) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      const key = keyOf(event);
      const holder = all.find((other) => other !== binding && other.keys === key);
      if (key === "Escape") done("");
      else if (key === "Backspace") {
        remap(binding, null);
        done(`“${binding.label}” has its default key again.`);
      } else if (holder) done(`${printed(key).join(" ")} is taken by “${holder.label}”. Change that first.`);
      else {
        remap(binding, key);
        done(`“${binding.label}” is now ${printed(key).join(" ")}.`);
      }
    },
    { signal: controller.signal, capture: true },
  );
}

if (dialog) {
  bind({ keys: "?", label: "Show all keys", group: "Everywhere", run: open });
  document.addEventListener("click", (event) => event.target.closest("[data-key-help]") && open());
}
