// localStorage under one prefix. Where storage is blocked or full, reads give nothing and writes are lost, quietly.

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
    // Nothing depends on it.
  }
}

export function readJson(key) {
  try {
    return JSON.parse(read(key));
  } catch {
    return null;
  }
}
