// The only module that makes elements of text. The text is what our own server rendered, with everything in it escaped; never put
// together here. Text of people and models goes into `textContent`. `make lint` keeps innerHTML and its like out of every other module.

/** The elements of a rendered partial, not in any page yet: nothing of them loads or runs. */
export function fragmentOf(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** A rendered page, parsed. */
export function pageOf(html) {
  return new DOMParser().parseFromString(html, "text/html");
}

/** Puts what `holder` (an element or fragment of `fragmentOf` or `pageOf`) holds into `target` as htmx does it, so that its attributes work. */
export function swapIn(target, holder, swapStyle) {
  const box = document.createElement("template");
  box.content.append(...holder.childNodes);
  window.htmx.swap(target, box.innerHTML, { swapStyle });
}
