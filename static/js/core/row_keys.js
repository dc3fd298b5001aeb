// [data-rows]: j and k move through the rows' links, x selects the row; Enter opens, as on any link.
import { attach } from "./attach.js";
import { bind } from "./keys.js";

attach("[data-rows]", (scope, signal) => {
  const links = () => [...scope.querySelectorAll(".row-link")];

  function move(by) {
    const all = links();
    if (!all.length) return;
    const at = all.findIndex((link) => link.closest("tr, li")?.contains(document.activeElement));
    const next = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1);
    all[next].focus();
    all[next].closest("tr, li")?.scrollIntoView({ block: "nearest" });
  }

  bind({ keys: "j", label: "Next row", group: "List", run: () => move(1), repeat: true, signal });
  bind({ keys: "k", label: "Previous row", group: "List", run: () => move(-1), repeat: true, signal });
  if (!scope.querySelector("input[data-pick]")) return;
  bind({
    keys: "x",
    label: "Select the row",
    group: "List",
    run: () => document.activeElement?.closest("tr, li")?.querySelector("input[data-pick]")?.click(),
    signal,
  });
});
