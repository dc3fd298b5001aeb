// Search inside a run, on the server: the outline shows the matching steps, n and N move between them, matches are highlighted in the page.
import { bind } from "../core/keys.js";

const WAIT_MS = 250;

export function search(replay, { outline, window: view, go, signal }) {
  const field = replay.querySelector("[data-search]");
  const say = replay.querySelector("[data-outline-words]");
  let hitSteps = [];
  let count = "";
  let timer = 0;
  let request = null;

  async function run() {
    const words = field.value.trim();
    request?.abort();
    if (words.length < 2) return show(null, words.length ? "Type at least two letters." : "");
    request = new AbortController();
    try {
      const response = await fetch(`${replay.dataset.searchUrl}?q=${encodeURIComponent(words)}`, {
        signal: request.signal,
      });
      const answer = response.ok || response.status === 503 ? await response.json() : null;
      if (answer?.problem) return show(null, answer.problem);
      if (!answer?.found) throw new Error();
      const number = answer.found.length;
      count = `${number.toLocaleString()}${answer.is_all ? "" : "+"}`;
      show(
        answer.found,
        number ? `${count} step${number === 1 ? " contains" : "s contain"} “${words}”` : `No step contains “${words}”.`,
      );
      mark(words);
    } catch (error) {
      if (error.name !== "AbortError") show(null, "The search failed. Try again.");
    }
  }

  function show(hits, words) {
    hitSteps = (hits ?? []).map(([index]) => index);
    say.hidden = !words;
    say.textContent = words;
    if (hits) outline.setOrder(hitSteps, new Map(hits));
    else outline.setOrder(view.order);
    if (!hits) CSS.highlights?.delete("search");
  }

  // The Custom Highlight API paints ranges without touching the markup of a step.
  function mark(words) {
    if (!CSS.highlights || !hitSteps.length) return CSS.highlights?.delete("search");
    const needle = words.toLowerCase();
    const ranges = [];
    const walker = document.createTreeWalker(view.list, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node && ranges.length < 500; node = walker.nextNode()) {
      const text = node.data.toLowerCase();
      if (text.length !== node.length) continue; // “İ” is longer in lower case, so places wouldn't fit
      for (
        let at = text.indexOf(needle);
        at >= 0 && ranges.length < 500;
        at = text.indexOf(needle, at + needle.length)
      ) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + needle.length);
        ranges.push(range);
      }
    }
    CSS.highlights.set("search", new Highlight(...ranges));
  }

  function walk(by) {
    if (!hitSteps.length) return;
    const current = view.current ?? -1;
    const next = by > 0 ? hitSteps.find((index) => index > current) : hitSteps.findLast((index) => index < current);
    const to = next ?? (by > 0 ? hitSteps[0] : hitSteps.at(-1));
    go(to);
    say.textContent = `${(hitSteps.indexOf(to) + 1).toLocaleString()} of ${count} steps that contain “${field.value.trim()}”`;
    requestAnimationFrame(() => mark(field.value.trim()));
  }

  field.addEventListener(
    "input",
    () => {
      clearTimeout(timer);
      timer = setTimeout(run, WAIT_MS);
    },
    { signal },
  );
  field.addEventListener(
    "keydown",
    (event) => {
      if (event.isComposing) return;
      if (event.key === "Enter") {
        event.preventDefault();
        walk(event.shiftKey ? -1 : 1);
        field.blur();
      } else if (event.key === "Escape") {
        field.value = "";
        run();
        field.blur();
      }
    },
    { signal },
  );
  view.onDraw = () => hitSteps.length && mark(field.value.trim());
  const hasHits = () => hitSteps.length > 0;
  bind({ keys: "n", label: "Next hit", group: "Replay", run: () => walk(1), enabled: hasHits, repeat: true, signal });
  bind({
    keys: "N",
    label: "Previous hit",
    group: "Replay",
    run: () => walk(-1),
    enabled: hasHits,
    repeat: true,
    signal,
  });
}
