// The desk's requests and their results: "done", "refused" (don't repeat), or "retry".
import { fragmentOf } from "../core/markup.js";
import { csrfHeaders } from "../core/nonce.js";

const DESK = /^\/desk\//;

/** Posts a form's values to a desk URL. Refusals and failures have `detail`, a message for the annotator. */
export async function post(url, values = {}, { keepalive = false } = {}) {
  if (!DESK.test(new URL(url, location.href).pathname)) throw new Error(`${url} is no address of the desk.`);
  const body = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) for (const one of [value].flat()) body.append(name, one);
  let response;
  try {
    response = await fetch(url, {
      method: "POST",
      body,
      keepalive,
      credentials: "same-origin",
      headers: { ...csrfHeaders(document.querySelector("[data-desk]")), Accept: "application/json" },
      signal: keepalive ? undefined : AbortSignal.timeout(30_000),
    });
  } catch {
    return { result: "retry", detail: "The server isn't responding." };
  }
  const data = response.headers.get("Content-Type")?.startsWith("application/json")
    ? await response.json().catch(() => null)
    : null;
  if (response.ok && data && !response.redirected) return { result: "done", data };
  return failure(response, data);
}

function failure(response, data) {
  if (response.redirected)
    return { result: "retry", detail: "You are signed out. Sign in again in another tab; nothing is lost." };
  if (response.status === 403)
    return { result: "retry", detail: data?.detail ?? "This page is out of date. Reload it; nothing is lost." };
  if (response.status === 413) return { result: "refused", detail: "This is larger than the server accepts." };
  if (response.status === 429) return { result: "retry", detail: "Too many requests." };
  if (response.status === 507) return { result: "retry", detail: "The server's disk is full." };
  // Our refusals are JSON. Anything else, a 404 included, may come from a proxy while the server restarts.
  if (response.status >= 500 || !data) return { result: "retry", detail: "The server couldn't complete this request." };
  return { result: "refused", code: data.code, detail: data.detail ?? "The server refused this." };
}

/** The elements of markup in a response. */
export function elementsOf(text) {
  return document.importNode(fragmentOf(text), true);
}

/** The markup at `url` as elements; null if it couldn't be fetched. */
export async function markup(url) {
  try {
    const response = await fetch(url, { credentials: "same-origin", headers: { "HX-Request": "true" } });
    if (!response.ok || response.redirected) return null;
    return elementsOf(await response.text());
  } catch {
    return null;
  }
}
