// Runs a behavior on every element that matches a selector, now and after any swap.

const behaviors = [];

/**
 * Calls `start(element, signal)` once for each matching element when it enters the page.
 * `signal` aborts when the element leaves: pass it to addEventListener or fetch, or listen to it to clean up.
 */
export function attach(selector, start) {
  const running = new WeakMap();
  const behavior = { selector, start, running };
  behaviors.push(behavior);
  for (const element of document.querySelectorAll(selector)) begin(behavior, element);
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
  const descendants = [...root.querySelectorAll(selector)];
  return root.matches(selector) ? [root, ...descendants] : descendants;
}

new MutationObserver((changes) => {
  for (const { addedNodes, removedNodes } of changes) {
    for (const node of removedNodes) {
      if (!(node instanceof Element) || node.isConnected) continue;
      for (const behavior of behaviors) for (const element of within(node, behavior.selector)) end(behavior, element);
    }
    for (const node of addedNodes) {
      if (!(node instanceof Element) || !node.isConnected) continue;
      for (const behavior of behaviors) for (const element of within(node, behavior.selector)) begin(behavior, element);
    }
  }
}).observe(document.documentElement, { childList: true, subtree: true });
