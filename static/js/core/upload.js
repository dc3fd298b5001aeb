// <form data-upload>: shows the chosen files and the upload's progress. Without scripts it's submitted like any form.
import { attach } from "./attach.js";
import { focusFirstError } from "./form_errors.js";
import { pageOf } from "./markup.js";
import { csrfHeaders } from "./nonce.js";
import { toast } from "./toast.js";

const MB = 1e6;
const REFUSALS = {
  413: "The file is larger than the server accepts.",
  507: "The server's disk is full. Nothing was imported; try again when there is space.",
};

attach("form[data-upload]", (form, signal) => {
  const drop = form.querySelector("[data-drop]");
  const input = form.querySelector("input[type=file]");
  const chosen = form.querySelector("[data-chosen]");
  const progress = form.querySelector("[data-upload-progress]");
  const bar = progress.querySelector("progress");
  const [words, end] = progress.querySelectorAll(".progress-words span");
  const button = form.querySelector("button:not([type=button])");
  const invitation = chosen.textContent;

  function sayChosen() {
    const files = [...input.files];
    const bytes = files.reduce((sum, file) => sum + file.size, 0);
    const names = files.length > 3 ? `${files.length} files` : files.map((file) => file.name).join(", ");
    chosen.textContent = files.length
      ? `${names} (${(bytes / MB).toLocaleString(undefined, { maximumFractionDigits: 1 })} MB)`
      : invitation;
  }

  function showProgress(event) {
    if (!event.lengthComputable) return bar.removeAttribute("value");
    const share = Math.floor((100 * event.loaded) / event.total);
    bar.value = share;
    end.textContent = `${share} %`;
    // The last bytes have been sent; the server is writing the file to storage.
    words.textContent = share === 100 ? "Storing" : "Uploading";
  }

  function rest() {
    progress.hidden = true;
    button.removeAttribute("aria-busy");
  }

  function finish(sending) {
    const next = sending.getResponseHeader("HX-Redirect");
    if (next) return location.assign(next);
    rest();
    if ([422, 507].includes(sending.status) && showErrors(sending.responseText)) return;
    toast(REFUSALS[sending.status] ?? "The upload failed. Try again.", { tone: "bad" });
  }

  function showErrors(html) {
    const returned = pageOf(html).querySelector("form[data-upload]");
    if (!returned) return false;
    form.replaceWith(document.adoptNode(returned));
    focusFirstError(returned);
    return true;
  }

  function submit(event) {
    event.preventDefault();
    if (button.getAttribute("aria-busy") === "true") return;
    const sending = new XMLHttpRequest();
    sending.open("POST", form.action || location.href);
    for (const [name, value] of Object.entries({ ...csrfHeaders(form), "HX-Request": "true" }))
      sending.setRequestHeader(name, value);
    sending.upload.addEventListener("progress", showProgress);
    sending.addEventListener("load", () => finish(sending));
    sending.addEventListener("error", () => {
      rest();
      toast("The upload was interrupted. Nothing was imported; try again.", { tone: "bad" });
    });
    signal.addEventListener("abort", () => sending.abort());
    progress.hidden = false;
    button.setAttribute("aria-busy", "true");
    sending.send(new FormData(form));
  }

  input.addEventListener("change", sayChosen, { signal });
  for (const type of ["dragenter", "dragover"])
    drop.addEventListener(type, () => drop.classList.add("over"), { signal });
  for (const type of ["dragleave", "drop"])
    drop.addEventListener(type, () => drop.classList.remove("over"), { signal });
  form.addEventListener("submit", submit, { signal });
  sayChosen();
});
