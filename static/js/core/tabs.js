// Scrolls the current page's tab into view if the tabs don't fit the window.
import { attach } from "./attach.js";

attach(".tabs > [aria-current=page]", (tab) => {
  const bar = tab.parentElement;
  const [outer, inner] = [bar.getBoundingClientRect(), tab.getBoundingClientRect()];
  bar.scrollLeft += inner.left + inner.width / 2 - (outer.left + outer.width / 2);
});
