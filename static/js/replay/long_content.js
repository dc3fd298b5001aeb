// Long content on demand: a[data-more] is replaced by the continuation, a[data-source] shows its block as source.
import { fragmentOf } from "../core/markup.js";
import { request } from "../core/requests.js";
import { toast } from "../core/toast.js";

const rendered = new WeakMap();

async function fragment(url) {
  const response = await request(url, { headers: { "HX-Request": "true" } });
  return fragmentOf(await response.text());
}

async function more(link) {
  const row = link.closest(".more-row") ?? link;
  link.setAttribute("aria-busy", "true");
  const content = await fragment(link.href);
  // A tree branch replaces its link among its siblings; text continues below.
  const item = link.classList.contains("inline") && link.closest("li");
  const branch = content.querySelector("ul.tree");
  if (item && branch && item.children.length === 1) item.replaceWith(...branch.children);
  else if (item && branch) link.replaceWith(wrapped(branch));
  else row.replaceWith(content);
}

function wrapped(tree) {
  tree.classList.remove("tree");
  return tree;
}

async function source(link) {
  const block = link.closest(".block");
  const head = block.querySelector(":scope > .block-head");
  const original = rendered.get(block);
  const bodyNodes = () => [...block.childNodes].filter((node) => node !== head);
  if (original) {
    rendered.delete(block);
    for (const node of bodyNodes()) node.remove();
    block.append(...original);
    link.textContent = "Source";
    return;
  }
  const content = await fragment(link.href);
  rendered.set(block, bodyNodes());
  for (const node of bodyNodes()) node.remove();
  block.append(content);
  link.textContent = "Rendered";
}

document.addEventListener("click", async (event) => {
  const link = event.target.closest?.("a[data-more], a[data-source]");
  if (!link || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  if (link.getAttribute("aria-busy") === "true") return;
  try {
    await (link.matches("[data-more]") ? more(link) : source(link));
  } catch (error) {
    link.removeAttribute("aria-busy");
    toast(error.message, { tone: "bad" });
  }
});
