/** Runs when the next frame is on the screen: what comes then does not delay it, and the page is laid out already. */
export function afterPaint(run) {
  requestAnimationFrame(() => setTimeout(run));
}
