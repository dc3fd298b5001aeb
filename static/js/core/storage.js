// localStorage under one prefix. If storage is blocked or full, reads return nothing and writes are silently lost.

const PREFIX = "retrace:";

export function read(key) {
  try {
    return localStorage.getItem(PREFIX + key);
  } catch {
    return null;
  }
}

export function write(key, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + key);
    else localStorage.setItem(PREFIX + key, value);
  } catch {
    // Storage is optional.
  }
}

export function readJson(key) {
  try {
    return JSON.parse(read(key));
  } catch {
    return null;
  }
}
