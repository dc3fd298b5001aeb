// Two runs side by side: j and k step both, d goes to the next difference, Enter opens and closes. Opens at the first difference.
import { attach } from "../core/attach.js";
import { bind } from "../core/keys.js";
import { fragmentOf } from "../core/markup.js";
import "./long_content.js";

const GROUP = "Comparison";

attach("[data-compare]", (compare, signal) => {
  const pane = compare.closest(".content");
  const rows = () => [...compare.querySelectorAll("[data-row]")].filter((row) => !row.closest("details:not([open])"));
  let current = null;

  async function open(row) {
    row.classList.add("open");
    if (row.querySelector(":scope > [data-opened]")) return;
    row.classList.remove("open");
    const response = await fetch(`${compare.dataset.rowsUrl}?row=${row.dataset.row}`, {
      headers: { "HX-Request": "true" },
      signal,
    }).catch(() => null);
    if (!response?.ok) return;
    const content = fragmentOf(await response.text());
    if (row.querySelector(":scope > [data-opened]")) return;
    row.prepend(content);
    row.classList.add("open");
  }

  async function go(row, { opening = true } = {}) {
    if (!row) return;
    current?.classList.remove("current");
    current = row;
    row.classList.add("current");
    const stand = () => {
      pane.scrollTop +=
        row.getBoundingClientRect().top - compare.querySelector(".compare-heads").getBoundingClientRect().bottom;
    };
    stand();
    row.focus({ preventScroll: true });
    if (!opening) return;
    await open(row);
    if (current === row) stand();
    const next = rows()[rows().indexOf(row) + 1];
    if (next?.hasAttribute("data-differs")) ahead(next);
  }

  // The next row is fetched in advance; it stays closed until it's reached.
  async function ahead(row) {
    if (row.querySelector(":scope > [data-opened]")) return;
    await open(row);
    if (row !== current) row.classList.remove("open");
  }

  function move(by) {
    const all = rows();
    go(all[Math.min(all.length - 1, Math.max(0, all.indexOf(current) + by))]);
  }

  function differing(by) {
    const all = rows();
    const rest =
      by > 0 ? all.slice(all.indexOf(current) + 1) : all.slice(0, Math.max(0, all.indexOf(current))).reverse();
    go(rest.find((row) => row.hasAttribute("data-differs")));
  }

  const key = (keys, label, run) => bind({ keys, label, group: GROUP, run, repeat: true, signal });
  key("j", "Next row", () => move(1));
  key("k", "Previous row", () => move(-1));
  key("d", "Next difference", () => differing(1));
  key("D", "Previous difference", () => differing(-1));
  key("g g", "First row", () => go(rows()[0]));
  key("G", "Last row", () => go(rows().at(-1)));
  key(
    "Enter",
    "Open or close the row",
    () => current && (current.classList.contains("open") ? current.classList.remove("open") : open(current)),
  );

  compare.addEventListener(
    "click",
    (event) => {
      const head = event.target.closest(".step-head");
      if (!head || event.target.closest("a, button")) return;
      const row = head.closest("[data-row]");
      if (row.classList.contains("open")) row.classList.remove("open");
      else go(row);
    },
    { signal },
  );

  const first = compare.querySelector("[data-opened]")?.closest("[data-row]");
  if (first) {
    first.classList.add("open");
    go(first);
  }
});
