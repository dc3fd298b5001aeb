// Requests to the server, and the messages shown when an htmx request fails.
import { toast } from "./toast.js";

/**
 * fetch() for our own pages; throws a displayable error for every status but 2xx, and for redirects, which lead to the sign-in page.
 * Unsafe requests also need `csrfHeaders`.
 */
export async function request(url, options = {}) {
  const response = await fetch(url, {
    credentials: "same-origin",
    ...options,
  }).catch(() => {
    throw new Error("The server didn't respond. Check the connection and try again.");
  });
  if (!response.ok) throw new Error(explain(response.status));
  if (response.redirected) throw new Error("You are signed out. Sign in again in another tab, then try again.");
  return response;
}

function explain(status, retryAfter) {
  if (status === 403) return "This page is out of date or not yours to change. Reload it and try again.";
  if (status === 404) return "This no longer exists, or you don't have access to it.";
  if (status === 409) return "Somebody else changed this in the meantime. Reload the page to see the current version.";
  if (status === 413) return "This is larger than the server accepts.";
  if (status === 429) return `Too many requests. Try again ${retryAfter ? `in ${retryAfter} s` : "in a minute"}.`;
  if (status === 507)
    return "The server's disk is full, so nothing was saved. Try again when its administrator has freed some space.";
  if (status > 501) return "Part of the server is unavailable, usually for a few seconds. Try again.";
  if (status >= 500)
    return "The server couldn't complete this request. Nothing was changed; try again, or tell the server's administrator.";
  return `The server refused this (${status}).`;
}

document.addEventListener("htmx:responseError", ({ detail: { xhr } }) => {
  toast(explain(xhr.status, xhr.getResponseHeader("Retry-After")), { tone: "bad" });
});

document.addEventListener("htmx:sendError", () => {
  toast("The server didn't respond. Check the connection and try again.", { tone: "bad" });
});

document.addEventListener("htmx:timeout", () => {
  toast("The server took too long to respond. Try again.", { tone: "bad" });
});
