// <time datetime="…" data-relative>: "3 min ago", updated while the page is open; the exact time is its title.
import { attach } from "./attach.js";

// The same wording as the server's (apps/common/quantities.py), so that the layout doesn't shift when it's replaced.
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const elements = new Set();

/** A time in short form: "now", "5 min ago", "in 2 h", "yesterday", "3 Mar", "3 Mar 2024". */
function relative(date, now = new Date()) {
  const seconds = (now - date) / 1000;
  const size = Math.abs(seconds);
  if (size < 45) return "now";
  if (size < 45 * 60) return around(seconds, Math.max(1, Math.round(size / 60)), "min");
  if (size < 22 * 3600) return around(seconds, Math.max(1, Math.round(size / 3600)), "h");
  if (size < 6.5 * 86400) return around(seconds, Math.max(1, Math.round(size / 86400)), "d");
  const day = `${date.getDate()} ${MONTHS[date.getMonth()]}`;
  return date.getFullYear() === now.getFullYear() ? day : `${day} ${date.getFullYear()}`;
}

function around(seconds, amount, unit) {
  return seconds > 0 ? `${amount} ${unit} ago` : `in ${amount} ${unit}`;
}

function show(element) {
  const date = new Date(element.dateTime);
  if (Number.isNaN(date.valueOf())) return;
  const words = relative(date);
  if (element.textContent !== words) element.textContent = words;
  element.title = exact.format(date);
}

attach("time[data-relative]", (element, signal) => {
  show(element);
  elements.add(element);
  signal.addEventListener("abort", () => elements.delete(element));
});

setInterval(() => elements.forEach(show), 20_000);
