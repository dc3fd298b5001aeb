// Corrections: a form generated from the tool's schema, validated by the server, stored with the answer like labels.
import { attach } from "../core/attach.js";
import { bind } from "../core/keys.js";
import { toast } from "../core/toast.js";
import { follow } from "./job.js";
import { addPending, pendingSteps, removePending } from "./pending_requests.js";
import { markup, post } from "./server.js";
import { currentOf, goTo, rowOf } from "./steps.js";

const EXAMPLE_CHARACTERS = 2000;
const SAVED = "saved";

class BetterActions {
  constructor(article, signal) {
    this.article = article;
    this.signal = signal;
    this.field = article.querySelector("[name=corrections]");
    this.dialog = document.getElementById("better");
    this.unsaved = new Map(); // by step: forms that were begun and closed without saving, to read on before going on with them
    this.isWarned = false; // whether submitting drops them
    this.read();
    article.addEventListener("draft:restored", () => this.read(), { signal });
    article.addEventListener(
      "click",
      ({ target }) => target.closest("[data-better-here]") && this.write(currentOf(article)),
      { signal },
    );
    article.addEventListener("better:chosen", ({ detail }) => this.put(detail.index, detail.message, detail.policy), {
      signal,
    });
    if (article.dataset.runsOn)
      bind({
        keys: "f",
        label: "See how it ends after the better action",
        group: "Answer",
        run: () => this.runOn(currentOf(article)),
        inside: article,
        signal,
      });
    this.dialog.addEventListener(
      "change",
      ({ target }) => target.matches("[data-better-tool]") && this.load(this.index, target.value),
      { signal },
    );
    article.addEventListener("desk:check", ({ detail }) => (detail.problem ||= this.problem()), { signal });
    this.dialog.addEventListener("input", ({ target }) => (target.form.dataset.begun = ""), { signal });
    this.dialog.addEventListener("close", () => this.setAside(this.dialog.querySelector("form")), { signal });
    this.dialog.addEventListener(
      "submit",
      (event) => {
        event.preventDefault();
        this.check(event.target);
      },
      { signal },
    );
  }

  read() {
    const previous = this.actions ?? new Map();
    this.unsaved.clear();
    this.actions = new Map(JSON.parse(this.field.value || "[]").map((action) => [action.index, action]));
    for (const index of new Set([...previous.keys(), ...this.actions.keys()])) this.paint(index);
  }

  keep() {
    this.field.value = JSON.stringify([...this.actions.values()].sort((x, y) => x.index - y.index));
    this.field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  async write(index) {
    if (this.unsaved.has(index)) this.showAgain(index);
    else {
      const before = this.actions.get(index)?.message;
      const loaded = await this.load(index, before ? (callOf(before)?.name ?? "") : undefined);
      if (!loaded) return;
      if (before) fill(this.dialog.querySelector("form"), before);
    }
    this.dialog.returnValue = "";
    this.dialog.showModal();
  }

  setAside(form) {
    if (this.dialog.returnValue === SAVED || form.dataset.begun === undefined) return;
    this.unsaved.set(this.index, form);
    this.isWarned = false;
  }

  /** Unsaved corrections hold an answer back once. */
  problem() {
    const steps = [...this.unsaved.keys()].sort((x, y) => x - y);
    if (!steps.length || this.isWarned) return "";
    this.isWarned = true;
    goTo(this.article, steps[0], { focus: false });
    const numbers = steps.map((index) => index + 1).join(", ");
    return steps.length === 1
      ? `Your correction at step ${numbers} isn't saved. Press e to finish it, or submit again without it.`
      : `Your corrections at steps ${numbers} aren't saved. Press e to finish one, or submit again without them.`;
  }

  showAgain(index) {
    this.index = index;
    this.request = null; // another step's form that is still to come
    this.dialog.replaceChildren(this.unsaved.get(index));
  }

  async load(index, tool) {
    this.index = index;
    const url = `${this.article.dataset.url}steps/${index}/better/${tool === undefined ? "" : `?tool=${encodeURIComponent(tool)}`}`;
    const request = {};
    this.request = request;
    const content = await markup(url);
    // Another item is displayed by now, or another form was requested, in which somebody may be writing already.
    if (this.signal.aborted || request !== this.request) return false;
    if (content) this.replace(content);
    else toast("The form didn't load. Try again.", { tone: "bad" });
    return Boolean(content);
  }

  /** Shows another form; in an open dialog, it's for another tool, and the message written so far stays. */
  replace(content) {
    const before = this.dialog.open ? this.dialog.querySelector("form")?.elements : null;
    this.dialog.replaceChildren(content);
    if (!before) return;
    const { elements, dataset } = this.dialog.querySelector("form");
    dataset.begun = ""; // by choosing its tool
    for (const name of ["content", "thought"]) elements[name].value = before[name].value;
    elements.thought.closest("details").open ||= elements.thought.value !== "";
    this.dialog.querySelector("[data-better-tool]")?.focus();
  }

  async check(form) {
    const { result, data, detail } = await post(form.getAttribute("action"), Object.fromEntries(new FormData(form)));
    if (this.signal.aborted) return;
    if (result === "done") {
      if (form.isConnected) this.dialog.close(SAVED); // otherwise it's open for another step by now
      this.put(Number(form.dataset.index), data.message, null);
      return;
    }
    const problem = form.querySelector("[data-better-problem]");
    problem.hidden = false;
    problem.textContent = detail;
    problem.scrollIntoView({ block: "nearest" });
  }

  put(index, message, policy) {
    removePending(this.article.dataset.item, "endings", index);
    this.unsaved.delete(index);
    this.actions.set(index, { index, message, policy });
    this.paint(index);
    this.keep();
    // A corrected step wasn't good.
    this.article.dispatchEvent(new CustomEvent("better:kept", { detail: { index } }));
    rowOf(this.article, index).focus({ preventScroll: true });
  }

  paint(index) {
    const notes = rowOf(this.article, index)?.querySelector("[data-notes]");
    if (!notes) return;
    notes.querySelector("[data-better]")?.remove();
    const action = this.actions.get(index);
    if (!action) return;
    notes.append(this.boxOf(action));
    notes.hidden = false;
    if (pendingSteps(this.article.dataset.item, "endings").includes(index)) this.showEnding(index);
  }

  boxOf({ index, message, policy }) {
    const box = document.createElement("div");
    box.className = "better-box";
    box.dataset.better = "";
    const head = document.createElement("p");
    const title = document.createElement("b");
    title.textContent = policy ? "Better, chosen" : "Better";
    head.append(title, " ");
    if (!policy)
      head.append(this.button("Edit", `Edit the better action of step ${index + 1}`, () => this.write(index)));
    head.append(this.button("Remove", `Remove the better action of step ${index + 1}`, () => this.remove(index)));
    if (this.article.dataset.runsOn)
      head.append(
        this.button("See how it ends (f)", `Run on from the better action of step ${index + 1}`, () =>
          this.runOn(index),
        ),
      );
    const words = document.createElement("pre");
    words.className = "code wrap";
    words.textContent = inWords(message);
    box.append(head, words);
    return box;
  }

  async runOn(index) {
    const message = this.actions.get(index)?.message;
    if (!message) {
      toast("Write or choose a better action here first.", { tone: "attention" });
      return;
    }
    rowOf(this.article, index).focus({ preventScroll: true }); // so that Enter submits again
    addPending(this.article.dataset.item, "endings", index);
    await this.showEnding(index);
  }

  async showEnding(index) {
    const { message } = this.actions.get(index);
    const box = this.article.querySelector(`#row-${index} [data-better]`);
    const status = box.querySelector("[data-ending]") ?? box.appendChild(document.createElement("div"));
    status.dataset.ending = "";
    status.setAttribute("role", "status");
    const showProgress = ({ words }) =>
      (status.textContent = `${words}… You can keep working; the ending will appear here.`);
    const controller = new AbortController();
    const result = await follow(
      `${this.article.dataset.url}steps/${index}/run-on/`,
      { message: JSON.stringify(message) },
      (state) => (box.isConnected ? showProgress(state) : controller.abort()),
      { signal: controller.signal },
    );
    if (result.error) {
      removePending(this.article.dataset.item, "endings", index);
      status.textContent = result.error;
    } else if (result.lines) {
      const lines = document.createElement("pre");
      lines.className = "code wrap";
      lines.textContent = result.lines.join("\n");
      const ended = document.createElement("p");
      ended.className = result.success === null ? "" : `badge ${result.success ? "good" : "bad"}`;
      ended.textContent = result.ended;
      status.replaceChildren(lines, ended);
    }
  }

  button(words, label, run) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "button quiet", textContent: words });
    button.setAttribute("aria-label", label);
    button.addEventListener("click", run);
    return button;
  }

  remove(index) {
    removePending(this.article.dataset.item, "endings", index);
    this.unsaved.delete(index);
    this.actions.delete(index);
    this.paint(index);
    this.keep();
  }
}

function callOf(message) {
  return message.tool_calls?.[0]?.function;
}

/** An action as displayed: the call and its arguments, or the text, up to `most` characters. */
export function inWords(message, most = EXAMPLE_CHARACTERS) {
  const calls = (message.tool_calls ?? []).map((call) => {
    const { name, arguments: args } = call.function;
    return `${name} ${typeof args === "string" ? args : JSON.stringify(args, null, 2)}`;
  });
  return [message.reasoning_content, message.content, ...calls].filter(Boolean).join("\n").slice(0, most);
}

// A sampled action may have its arguments as text, as policies write them, which need not be JSON.
function argumentsOf(message) {
  const args = callOf(message)?.arguments ?? {};
  try {
    const read = typeof args === "string" ? JSON.parse(args) : args;
    return read && typeof read === "object" ? read : {};
  } catch {
    return {};
  }
}

function fill(form, message) {
  form.elements.content.value = message.content ?? "";
  form.elements.thought.value = message.reasoning_content ?? "";
  const args = argumentsOf(message);
  const rest = Object.entries(args).filter(([name]) => !form.elements[`arg.${name}`]);
  for (const field of form.elements) {
    if (!field.name.startsWith("arg.")) continue;
    const name = field.name.slice(4);
    const isRest = name === "arguments" && !(name in args); // for a tool with an unknown schema
    const value = isRest ? Object.fromEntries(rest) : (args[name] ?? "");
    const isWords =
      typeof value === "string" && !(field instanceof HTMLSelectElement) && !field.classList.contains("mono");
    field.value = isWords || value === "" ? value : JSON.stringify(value);
  }
}

attach(
  "[data-labels]",
  (article, signal) => article.querySelector("[data-better-here]") && new BetterActions(article, signal),
);
