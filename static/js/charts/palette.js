// The colors of tokens.css in canvas format, in the current theme.
const cache = new Map();
const system = matchMedia("(prefers-color-scheme: dark)");
let probe = null;

/** A token's color: color("series-1") is "rgb(52, 82, 196)". An `alpha` below 1 makes it transparent. */
export function color(token, alpha = 1) {
  if (!cache.has(token)) cache.set(token, computed(token));
  const solid = cache.get(token);
  return alpha === 1 ? solid : solid.replace("rgb(", "rgba(").replace(")", `, ${alpha})`);
}

function computed(token) {
  if (!probe?.isConnected) {
    probe = document.createElement("span");
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(--${token})`;
  return getComputedStyle(probe).color;
}

/** The color token of the series at `index`: there are six, also distinguished by dashes. */
export const seriesToken = (index) => `series-${(index % 6) + 1}`;

/** Calls `run` whenever the theme changes. */
export function onThemeChange(run, signal) {
  const changed = () => {
    cache.clear();
    run();
  };
  const theme = new MutationObserver(changed);
  theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  system.addEventListener("change", changed, { signal });
  signal.addEventListener("abort", () => theme.disconnect());
}
