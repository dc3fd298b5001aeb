// Leaves empty filters out of the URL, to keep copied links short.
import { attach } from "./attach.js";

attach("form[data-filters]", (form, signal) => {
  form.addEventListener(
    "htmx:configRequest",
    ({ detail }) => {
      if (detail.elt !== form) return;
      for (const [name, value] of [...detail.formData.entries()]) if (value === "") detail.formData.delete(name);
    },
    { signal },
  );
});
