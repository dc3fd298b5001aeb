/** Calls `run` once the next frame is painted: it doesn't delay the frame, and layout is already done. */
export function afterPaint(run) {
  requestAnimationFrame(() => setTimeout(run));
}
