// Rows of an item are opened before they are reached: [data-closed] ones near the viewport are fetched in chunks.
import { markup } from "./server.js";

const CHUNK = 8;
const AHEAD = "1600px";

/** Opens closed rows of `article` as they come near the viewport; `put(shell, opened)` replaces one. Returns a function that opens a row at once. */
export function openNear(article, signal, put) {
  const requested = new Set();
  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) if (isIntersecting) open(target);
    },
    { root: article.querySelector(".desk-scroll"), rootMargin: `${AHEAD} 0px` },
  );
  signal.addEventListener("abort", () => near.disconnect());
  for (const row of article.querySelectorAll("[data-row][data-closed]")) near.observe(row);

  async function open(row) {
    near.unobserve(row);
    const chunk = Math.floor(Number(row.dataset.row) / CHUNK) * CHUNK;
    if (requested.has(chunk)) return;
    requested.add(chunk);
    const content = await markup(`${article.dataset.url}rows/${chunk}/`);
    if (!content) {
      requested.delete(chunk);
      setTimeout(() => row.isConnected && near.observe(row), 3000);
      return;
    }
    for (const opened of content.querySelectorAll("[data-row]")) {
      const shell = article.querySelector(`#${opened.id}[data-closed]`);
      if (shell) put(shell, opened);
    }
  }

  return open;
}
