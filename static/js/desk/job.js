// A job that a worker runs for the desk: requested once, then polled until it's over.
import { post } from "./server.js";

const EVERY_MS = 700;

/** Posts `values` to `url` and waits; `report(state)` receives progress. Resolves to the result, with `error` if it failed. */
export async function follow(url, values, report, { signal } = {}) {
  const { result, data, detail } = await post(url, values);
  if (result !== "done") return { error: detail };
  let state = data;
  while (state.active) {
    report(state);
    await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    if (signal?.aborted) return { error: "" };
    state = (await ask(state.url)) ?? state;
  }
  return state;
}

// Unanswered requests are repeated.
async function ask(url) {
  try {
    const response = await fetch(url, { credentials: "same-origin", headers: { Accept: "application/json" } });
    return response.ok && !response.redirected ? await response.json() : null;
  } catch {
    return null;
  }
}
