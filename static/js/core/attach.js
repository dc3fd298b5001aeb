// Runs a behavior on every element that matches a selector, now and after any swap.

const behaviours = [];

/**
 * Calls `start(element, signal)` once for each matching element when it enters the page.
 * `signal` aborts when the element leaves: pass it to addEventListener or fetch, or listen to it to clean up.
 */
export function attach(selector, start) {
  const running = new WeakMap();
  const behaviour = { selector, start, running };
  behaviours.push(behaviour);
  for (const element of document.querySelectorAll(selector)) begin(behaviour, element);
}

function begin({ start, running }, element) {
  if (running.has(element)) return;
  const controller = new AbortController();
  running.set(element, controller);
  start(element, controller.signal);
}

function end({ running }, element) {
  running.get(element)?.abort();
  running.delete(element);
}

function within(root, selector) {
  const found = [...root.querySelectorAll(selector)];
  return root.matches(selector) ? [root, ...found] : found;
}

new MutationObserver((changes) => {
  for (const { addedNodes, removedNodes } of changes) {
    for (const node of removedNodes) {
      if (!(node instanceof Element) || node.isConnected) continue;
      for (const behaviour of behaviours)
        for (const element of within(node, behaviour.selector)) end(behaviour, element);
    }
    for (const node of addedNodes) {
      if (!(node instanceof Element) || !node.isConnected) continue;
      for (const behaviour of behaviours)
        for (const element of within(node, behaviour.selector)) begin(behaviour, element);
    }
  }
}).observe(document.documentElement, { childList: true, subtree: true });
