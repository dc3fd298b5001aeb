// The colors of tokens.css as a canvas takes them, in the theme that is on.
const known = new Map();
const system = matchMedia("(prefers-color-scheme: dark)");
let probe = null;

/** A token's color: color("series-1") is "rgb(52, 82, 196)". With `alpha` below 1, see-through. */
export function color(token, alpha = 1) {
  if (!known.has(token)) known.set(token, computed(token));
  const solid = known.get(token);
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

/** The token of the color of the series at `index`: there are six, which a dash tells apart too. */
export const seriesToken = (index) => `series-${(index % 6) + 1}`;

/** Calls `run` whenever the colors are others. */
export function onThemeChange(run, signal) {
  const changed = () => {
    known.clear();
    run();
  };
  const theme = new MutationObserver(changed);
  theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  system.addEventListener("change", changed, { signal });
  signal.addEventListener("abort", () => theme.disconnect());
}
