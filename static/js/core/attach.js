// Runs a behavior on every element that matches a selector, now and after any swap.

const behaviors = [];

/**
 * Calls `start(element, signal)` once for each matching element when it enters the page.
 * `signal` aborts when the element leaves: pass it to addEventListener or fetch, or listen to it to clean up.
 */
export function attach(selector, start) {
  const running = new Map();
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

// Found by what runs, not by the selector: one that names an ancestor no longer matches what has left it.
function endRemoved({ running }) {
  for (const [element, controller] of running) {
    if (element.isConnected) continue;
    running.delete(element);
    controller.abort();
  }
}

function within(root, selector) {
  const descendants = [...root.querySelectorAll(selector)];
  return root.matches(selector) ? [root, ...descendants] : descendants;
}

new MutationObserver((changes) => {
  if (changes.some(({ removedNodes }) => removedNodes.length > 0)) behaviors.forEach(endRemoved);
  for (const { addedNodes } of changes) {
    for (const node of addedNodes) {
      if (!(node instanceof Element) || !node.isConnected) continue;
      for (const behavior of behaviors) for (const element of within(node, behavior.selector)) begin(behavior, element);
    }
  }
}).observe(document.documentElement, { childList: true, subtree: true });
