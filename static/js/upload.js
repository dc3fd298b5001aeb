// <form data-upload>: shows how far an upload is. Without scripts the form is sent as any other.
import { attach } from "./attach.js";
import { csrfHeaders } from "./requests.js";
import { toast } from "./toast.js";

attach("form[data-upload]", (form, signal) => {
  const place = form.querySelector("[data-upload-progress]");
  const bar = place.querySelector("progress");
  const [words, end] = place.querySelectorAll(".progress-words span");
  const button = form.querySelector("button:not([type=button])");

  function show(event) {
    if (!event.lengthComputable) return bar.removeAttribute("value");
    const share = Math.floor((100 * event.loaded) / event.total);
    bar.value = share;
    end.textContent = `${share} %`;
    // The last bytes are on their way; the server now writes the file to its storage.
    words.textContent = share === 100 ? "Storing" : "Uploading";
  }

  function rest() {
    place.hidden = true;
    button.removeAttribute("aria-busy");
  }

  form.addEventListener(
    "submit",
    (event) => {
      event.preventDefault();
      if (button.getAttribute("aria-busy") === "true") return;
      const sending = new XMLHttpRequest();
      sending.open("POST", form.action || location.href);
      for (const [name, value] of Object.entries(csrfHeaders())) sending.setRequestHeader(name, value);
      sending.upload.addEventListener("progress", show);
      sending.addEventListener("load", () => {
        if (sending.status < 300) return location.assign(sending.responseURL);
        rest();
        if (sending.status === 422) return showErrors(sending.responseText);
        toast(sending.status === 413 ? "The file is larger than the server takes." : "The upload failed. Try again.", { tone: "bad" });
      });
      sending.addEventListener("error", () => {
        rest();
        toast("The upload broke off. Nothing was imported; try again.", { tone: "bad" });
      });
      signal.addEventListener("abort", () => sending.abort());
      place.hidden = false;
      button.setAttribute("aria-busy", "true");
      sending.send(new FormData(form));
    },
    { signal },
  );

  function showErrors(html) {
    const page = new DOMParser().parseFromString(html, "text/html");
    const fresh = page.querySelector("form[data-upload]");
    if (fresh) form.replaceWith(document.adoptNode(fresh));
    else location.reload();
  }
});
