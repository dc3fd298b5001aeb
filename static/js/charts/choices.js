// A reader's display choices for curves: in the URL, so that a link shows the same; and in local storage, as the default for other URLs.
import { readJson, write } from "../core/storage.js";
import { X_AXES } from "./axes.js";

const KEPT = "curves";

export class Choices {
  /** `axis` is a key of X_AXES; `pinned` and `log` list charts by family; `span` is the visible range, [from, to], or null. */
  constructor() {
    const address = new URLSearchParams(location.search);
    // Addresses written by this page always have an axis; in these, other missing choices mean the defaults.
    Object.assign(this, checked(address.has("axis") ? inAddress(address) : (readJson(KEPT) ?? {})));
  }

  /** Writes the change to the URL and to storage, except for `span`, which is specific to one run. Stores no other choices that came from a link. */
  set(change) {
    Object.assign(this, change);
    const { span, ...kept } = change;
    if (Object.keys(kept).length) write(KEPT, JSON.stringify({ ...readJson(KEPT), ...kept }));
    this.showInAddress();
  }

  showInAddress() {
    const address = new URL(location.href);
    const { axis, smoothing, pinned, log, span } = this;
    const [from, to] = span ?? [];
    for (const [name, values] of Object.entries({
      axis: [axis],
      smoothing: smoothing ? [smoothing] : [],
      pinned,
      log,
      from: span ? [from] : [],
      to: span ? [to] : [],
    })) {
      address.searchParams.delete(name);
      for (const value of values) address.searchParams.append(name, value);
    }
    if (address.href !== location.href) history.replaceState(history.state, "", address);
  }
}

function inAddress(address) {
  const [from, to] = ["from", "to"].map((name) => Number.parseFloat(address.get(name)));
  return {
    axis: address.get("axis"),
    smoothing: address.get("smoothing"),
    pinned: address.getAll("pinned"),
    log: address.getAll("log"),
    span: [from, to],
  };
}

// URLs are untrusted, and older versions stored other formats.
function checked({ axis, smoothing, pinned, log, span }) {
  const names = (value) => (Array.isArray(value) ? [...new Set(value.map(String))] : []);
  return {
    axis: Object.hasOwn(X_AXES, axis) ? axis : "steps",
    smoothing: Number(smoothing) || 0,
    pinned: names(pinned),
    log: names(log),
    span: span?.[0] < span?.[1] ? span : null,
  };
}
