// The only module that turns text into elements. The text must be rendered by our own server, with everything in it escaped; never assemble it
// here. User and model text is assigned to `textContent`. `make lint` keeps innerHTML and the like out of all other modules.

/** The elements of a rendered partial, detached from any page: nothing in them loads or runs. */
export function fragmentOf(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** A rendered page, parsed. */
export function pageOf(html) {
  return new DOMParser().parseFromString(html, "text/html");
}

/** Moves the content of `holder` (an element or fragment from `fragmentOf` or `pageOf`) into `target` like htmx, so that its attributes work. */
export function swapIn(target, holder, swapStyle) {
  const box = document.createElement("template");
  box.content.append(...holder.childNodes);
  window.htmx.swap(target, box.innerHTML, { swapStyle });
}
