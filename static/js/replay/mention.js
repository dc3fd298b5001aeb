// A list of people beside a comment: choosing one inserts their name into the text after an @.
import { attach } from "../core/attach.js";

attach("select[data-mention]", (select, signal) => {
  const text = document.querySelector(select.dataset.mention);
  select.addEventListener(
    "change",
    () => {
      if (!select.value || !text) return;
      const before = text.value.slice(0, text.selectionStart);
      const space = before && !/\s$/.test(before) ? " " : "";
      text.setRangeText(`${space}@${select.value} `, text.selectionStart, text.selectionEnd, "end");
      select.value = "";
      text.focus();
      text.dispatchEvent(new Event("input", { bubbles: true }));
    },
    { signal },
  );
});
