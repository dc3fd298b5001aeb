// Markup of rows generated from the outline: the same as in templates/trajectories/steps.jinja and replay.html.

/** A duration in words; must match apps.common.quantities.duration. */
export function duration(seconds) {
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min${whole % 60 ? ` ${whole % 60} s` : ""}`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
}

export function element(tag, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
}

function kindOf(step) {
  const node = element("span", "kind", step.kind.letter);
  node.title = step.kind.label;
  node.ariaHidden = "true";
  return node;
}

/** A closed step of the same height as the opened one, until that is loaded. */
export function shell(step, url) {
  const article = element("article", "step waiting");
  article.id = `step-${step.index + 1}`;
  article.dataset.step = step.index;
  article.dataset.kind = step.kind.slug;
  article.tabIndex = -1;
  const head = element("header", "step-head");
  const number = element("a", "step-number", step.index + 1);
  number.href = url;
  const line = element("h2", "step-line");
  line.append(element("span", "unseen", `Step ${step.index + 1}, ${step.kind.label.toLowerCase()}: `));
  if (step.tool) line.append(element("b", "tool", step.tool), " ");
  line.append(element("span", "headline", step.headline));
  const result = element("span", step.isError ? "step-result bad" : "step-result", step.result);
  const figures = element("span", "step-figures");
  if (step.seconds !== null) figures.append(element("span", "seconds", duration(step.seconds)));
  head.append(number, kindOf(step), line, result, figures);
  const body = element("div", "step-body");
  for (let i = 0; i < 3; i++) body.append(element("span", i === 2 ? "skeleton line half" : "skeleton line"));
  article.append(head, body);
  return article;
}

/** A row of the outline; `words` replaces its headline with a search excerpt, `isJudged` marks it. */
export function outlineRow(step, url, words, isJudged = false) {
  const link = element("a", "outline-row");
  link.href = url;
  link.dataset.kind = step.kind.slug;
  link.dataset.go = step.index;
  const line = element("span", "words");
  if (words) line.textContent = words;
  else {
    if (step.tool) line.append(element("b", "", step.tool), " ");
    line.append(step.headline);
  }
  link.append(element("span", "number", step.index + 1), kindOf(step), line);
  const marks = element("span", "marks");
  if (isJudged) marks.append(marked("mark judged", "✓", "Has its own judgment"));
  if (step.isError) marks.append(marked("mark", "!", "Error"));
  link.append(marks);
  return link;
}

function marked(name, letter, title) {
  const node = element("span", name, letter);
  node.title = title;
  return node;
}
