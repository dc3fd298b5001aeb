// Requests to the server, and the messages shown when an htmx request fails.
import { toast } from "./toast.js";

/** fetch() for our own pages; throws a displayable error for every status but 2xx. Unsafe requests also need `csrfHeaders`. */
export async function request(url, options = {}) {
  const response = await fetch(url, {
    credentials: "same-origin",
    ...options,
  }).catch(() => {
    throw new Error("The server did not answer. Check the connection and try again.");
  });
  if (!response.ok) throw new Error(explain(response.status));
  return response;
}

function explain(status, retryAfter) {
  if (status === 403) return "This page is out of date or not yours to change. Reload it and try again.";
  if (status === 404) return "This is gone, or you have no access to it.";
  if (status === 409) return "Somebody changed this meanwhile. Reload the page to see it as it is now.";
  if (status === 413) return "This is larger than the server takes.";
  if (status === 429) return `Too many requests. Try again ${retryAfter ? `in ${retryAfter} s` : "in a minute"}.`;
  if (status === 507)
    return "The server's disk is full, so nothing was saved. Try again when whoever runs it has freed some space.";
  if (status > 501) return "Part of the server is unavailable, which mostly lasts seconds. Try again.";
  if (status >= 500)
    return "The server couldn't complete this request. Nothing was changed; try again, or tell whoever runs this server.";
  return `The server refused this (${status}).`;
}

document.addEventListener("htmx:responseError", ({ detail: { xhr } }) => {
  toast(explain(xhr.status, xhr.getResponseHeader("Retry-After")), { tone: "bad" });
});

document.addEventListener("htmx:sendError", () => {
  toast("The server did not answer. Check the connection and try again.", { tone: "bad" });
});

document.addEventListener("htmx:timeout", () => {
  toast("The server took too long to answer. Try again.", { tone: "bad" });
});
