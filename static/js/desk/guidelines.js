// Opens the guidelines automatically if this version hasn't been seen in this browser.
import { attach } from "../core/attach.js";
import { read, write } from "../core/storage.js";

attach("#guidelines", (dialog) => {
  const desk = document.querySelector("[data-desk]");
  const key = `guidelines:${desk.dataset.desk}`;
  if (!desk.querySelector("[data-item]") || read(key) === dialog.dataset.version) return;
  write(key, dialog.dataset.version);
  dialog.addEventListener("close", () => desk.querySelector(".desk-scroll")?.focus({ preventScroll: true }), {
    once: true,
  });
  dialog.showModal();
});
