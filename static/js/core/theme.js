// [data-theme-set="light|dark|system"] buttons set the theme. It's stored in this browser (theme_first.js reads
// it before the first paint) and, for signed-in people, in their preferences.
import { attach } from "./attach.js";
import { bind } from "./keys.js";
import { csrfHeaders } from "./nonce.js";
import { request } from "./requests.js";
import { read, write } from "./storage.js";

const system = matchMedia("(prefers-color-scheme: dark)");

function current() {
  return read("theme") ?? document.documentElement.dataset.theme ?? "system";
}

function choose(theme) {
  write("theme", theme);
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  document.querySelectorAll("[data-theme-set]").forEach(show);
  document.dispatchEvent(new CustomEvent("theme:changed"));
}

function show(button) {
  button.setAttribute("aria-pressed", String(button.dataset.themeSet === current()));
}

attach("[data-theme-set]", (button, signal) => {
  show(button);
  button.addEventListener("click", () => choose(button.dataset.themeSet), { signal });
});

bind({
  keys: "T",
  label: "Switch between light and dark",
  group: "Everywhere",
  run: () => choose((current() === "system" ? system.matches : current() === "dark") ? "light" : "dark"),
});

// Preferences follow a member across browsers: base.html has the URL for saving them.
let saving = 0;
function save(change) {
  const { preferences } = document.body.dataset;
  if (!preferences) return;
  clearTimeout(saving);
  saving = setTimeout(() => {
    const body = new URLSearchParams(change);
    request(preferences, { method: "POST", body, headers: csrfHeaders(document.body) }).catch(() => {
      // The choice still applies in this browser.
    });
  }, 300);
}

document.addEventListener("theme:changed", () => save({ theme: current() }));
document.addEventListener("keys:remapped", ({ detail }) => save({ keys: JSON.stringify(detail) }));
