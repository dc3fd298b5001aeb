// Drawn on a plot besides its curves: reference levels, axis titles, marks.
import { color } from "./palette.js";

/** Dashed reference lines: a value, and y = x. */
export function drawLevels(uplot, { reference, isDiagonal }) {
  const { ctx, bbox, scales } = uplot;
  const x = (value) => uplot.valToPos(value, "x", true);
  const y = (value) => uplot.valToPos(value, "left", true);
  ctx.save();
  ctx.strokeStyle = color("faint");
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.beginPath();
  if (reference !== undefined) {
    ctx.moveTo(bbox.left, y(reference));
    ctx.lineTo(bbox.left + bbox.width, y(reference));
  }
  if (isDiagonal) {
    const from = Math.max(scales.x.min, scales.left.min);
    const to = Math.min(scales.x.max, scales.left.max);
    ctx.moveTo(x(from), y(from));
    ctx.lineTo(x(to), y(to));
  }
  ctx.stroke();
  ctx.restore();
}

/** Draws the axis titles and `note` above and below the curves, and a mark at each x of `marks`, at most one per pixel. */
export function drawWords(uplot, x, { left, right, marks = [] }, note) {
  const { ctx, bbox } = uplot;
  const pixels = (count) => count * devicePixelRatio;
  const end = bbox.left + bbox.width;
  const bottom = bbox.top + bbox.height;
  ctx.save();
  ctx.font = uplot.axes[0].font[0];
  ctx.fillStyle = color("faint");
  ctx.textBaseline = "alphabetic";
  const say = (words, at, y, align) => {
    ctx.textAlign = align;
    ctx.fillText(words, at, y);
  };
  say([left.title, left.unit].filter(Boolean).join(", "), right ? 0 : bbox.left, pixels(11), "left");
  if (right) say(right.title, ctx.canvas.width - pixels(2), pixels(11), "right");
  else say(note, end, pixels(11), "right");
  say(x.unit ?? x.name, end, bottom + pixels(16), "right");
  ctx.fillStyle = color("accent");
  for (const at of new Set(marks.map((value) => Math.round(uplot.valToPos(value, "x", true)))))
    if (at >= bbox.left && at <= end) ctx.fillRect(at, bottom - pixels(4), pixels(1), pixels(4));
  ctx.restore();
}
