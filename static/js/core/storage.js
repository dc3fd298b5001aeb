// localStorage under one prefix. If storage is blocked or full, reads return nothing or what was stored last, and writes are lost.

const PREFIX = "retrace:";

export function read(key) {
  try {
    return localStorage.getItem(PREFIX + key);
  } catch {
    return null;
  }
}

/** Stores `value`, or removes it if null. Returns whether that worked, since storage is optional. */
export function write(key, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + key);
    else localStorage.setItem(PREFIX + key, value);
    return true;
  } catch {
    return false;
  }
}

export function readJson(key) {
  try {
    return JSON.parse(read(key));
  } catch {
    return null;
  }
}
