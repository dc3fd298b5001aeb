// A registry of the page's keys. An element with data-key="j" is clicked (a field: focused) when j is pressed;
// modules bind other actions with bind(). "g t" is g, then t; "mod+Enter" is Ctrl or ⌘ with Enter, and works while typing.
//
// Keys are disabled while typing and, except for those inside it, while a dialog is open. The last binding of a key wins, so
// a page can override a key of the shell. Keys can be remapped in the `?` dialog: see remap().
import { attach } from "./attach.js";
import { readJson, write } from "./storage.js";

const bindings = new Set();
const SEQUENCE_MS = 1200;
let prefix = null;

/**
 * Binds a key until `signal` aborts. `run(event)` performs the action; `enabled()` can disable it.
 * `repeat`: a held key repeats the action. `element`: the element that it belongs to, if any. `inside`: the part of the page
 * that it acts on; it's disabled while that part is inert.
 */
export function bind({
  keys,
  label,
  group = "This page",
  run,
  signal,
  enabled = () => true,
  repeat = false,
  element = null,
  inside = null,
}) {
  const now = remapped(group, label) ?? keys;
  const binding = { standard: keys, keys: now, label, group, run, enabled, repeat, element, inside };
  bindings.add(binding);
  signal?.addEventListener("abort", () => bindings.delete(binding));
  return binding;
}

/** The active bindings, in the order of binding; of several for one key only the one that wins. */
export function boundKeys() {
  const winners = new Map();
  const dialog = [...document.querySelectorAll("dialog[open]")].at(-1);
  for (const binding of bindings) if (awake(binding, dialog)) winners.set(binding.keys, binding);
  // A sequence is unreachable if its first key has a binding of its own.
  return [...winners.values()].filter(({ keys }) => !keys.includes(" ") || !winners.has(keys.split(" ")[0]));
}

function awake({ element, inside, enabled }, dialog) {
  if (inside?.closest("[inert]")) return false;
  if (element && (element.disabled || element.closest("[hidden], [inert], [aria-disabled=true], dialog:not([open])")))
    return false;
  return (!dialog || Boolean(element && dialog.contains(element))) && enabled();
}

// Remapping: {"Group/Label": "key"}. base.html has a member's own; for others, it's stored in the browser.
function nameOf(group, label) {
  return `${group}/${label}`;
}

function remaps() {
  const { keys } = document.body.dataset;
  return keys === undefined ? (readJson("keys") ?? {}) : JSON.parse(keys);
}

function remapped(group, label) {
  return remaps()[nameOf(group, label)];
}

/** Remaps a binding, in the page and in the member's preferences. Null restores the default. */
export function remap(binding, keys) {
  const all = remaps();
  if (keys === null) delete all[nameOf(binding.group, binding.label)];
  else all[nameOf(binding.group, binding.label)] = keys;
  if (document.body.dataset.keys === undefined) write("keys", JSON.stringify(all));
  else document.body.dataset.keys = JSON.stringify(all);
  binding.keys = keys ?? binding.standard;
  print(binding);
  document.dispatchEvent(new CustomEvent("keys:remapped", { detail: all }));
}

/** The name of an event's key, as used in bindings. */
export function keyOf(event) {
  let key = event.key === " " ? "Space" : event.key;
  // Caps Lock is meant for text: otherwise it would turn w into W, which may do something else.
  if (key?.length === 1 && event.getModifierState?.("CapsLock"))
    key = event.shiftKey ? key.toUpperCase() : key.toLowerCase();
  return (event.ctrlKey || event.metaKey ? "mod+" : "") + key;
}

/** A key as displayed: "↵" for Enter, "⌘" or "Ctrl" for mod. */
export function printed(keys) {
  const mac = navigator.platform.startsWith("Mac");
  const names = {
    Enter: "↵",
    Escape: "Esc",
    ArrowUp: "↑",
    ArrowDown: "↓",
    ArrowLeft: "←",
    ArrowRight: "→",
    Backspace: "⌫",
  };
  return keys.split(" ").map((key) => {
    const bare = key.replace("mod+", "");
    return (key === bare ? "" : mac ? "⌘ " : "Ctrl ") + (names[bare] ?? bare);
  });
}

function print({ element, keys }) {
  if (!element) return;
  element.setAttribute("aria-keyshortcuts", keys.replace("mod+", "Control+"));
  const kbd = element.querySelector("kbd") ?? element.parentElement?.querySelector(":scope > kbd");
  if (kbd) kbd.textContent = printed(keys).join(" ");
}

attach("[data-key]", (element, signal) => {
  const label = element.dataset.keyLabel ?? element.getAttribute("aria-label") ?? wordsOf(element);
  const group = element.closest("[data-key-group]")?.dataset.keyGroup;
  const repeat = element.dataset.keyRepeat !== undefined;
  const binding = bind({ keys: element.dataset.key, label, group, run: () => press(element), signal, repeat, element });
  // The server doesn't know this keyboard's labels.
  if (binding.keys !== binding.standard || binding.keys.includes("mod+")) print(binding);
  else element.setAttribute("aria-keyshortcuts", binding.keys.replace("mod+", "Control+"));
});

function wordsOf(element) {
  const copy = element.cloneNode(true);
  for (const part of copy.querySelectorAll("kbd, .count, svg")) part.remove();
  return copy.textContent.trim().replace(/\s+/g, " ");
}

function press(element) {
  if (!element.matches("input:not([type=checkbox], [type=radio]), textarea, select")) {
    element.click();
    return;
  }
  element.focus();
  element.select?.();
}

function isTyping(target) {
  if (!(target instanceof Element)) return false;
  if (target.closest("[contenteditable]:not([contenteditable=false])")) return true;
  return target.matches(
    "textarea, select, input:not([type=checkbox], [type=radio], [type=button], [type=submit], [type=range])",
  );
}

// Enter and Space activate the focused link or button.
function belongsToFocus(key, target) {
  if (key === "Enter") return target.matches("a[href], button, summary");
  return key === "Space" && target.matches("a[href], button, summary, input");
}

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.altKey || event.isComposing || !(event.target instanceof Element)) return;
  const key = keyOf(event);
  if (!key.startsWith("mod+") && (isTyping(event.target) || belongsToFocus(key, event.target))) return;
  const binding = find(key);
  if (!binding) return;
  event.preventDefault();
  if (!event.repeat || binding.repeat) binding.run(event);
});

function find(key) {
  const reachable = boundKeys();
  if (prefix) {
    const first = prefix;
    prefix = null;
    const sequence = reachable.find(({ keys }) => keys === `${first} ${key}`);
    if (sequence) return sequence;
  }
  const single = reachable.find(({ keys }) => keys === key);
  if (single) return single;
  if (reachable.some(({ keys }) => keys.startsWith(`${key} `))) {
    prefix = key;
    setTimeout(() => (prefix = null), SEQUENCE_MS);
  }
  return null;
}
