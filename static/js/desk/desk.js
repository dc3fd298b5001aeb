// The desk: shows an item, takes its answer, and preloads the next one. An answer is sent while the next item
// is already displayed; unacknowledged answers are stored and resent (outbox.js).
import "./conditions.js";
import "./aspects.js"; // before the bar is measured, since they may be open
import "./answer_bar.js";
import "./guidelines.js";
import "./step_labels.js";
import "./rating.js";
import "./step_answers.js";
import "./alternatives.js"; // with the corrections, whose objection to an answer comes after all others
import "./pair.js";
import "../replay/long_content.js";
import { attach } from "../core/attach.js";
import { bind } from "../core/keys.js";
import { toast } from "../core/toast.js";
import { Clock } from "./clock.js";
import { inWords } from "./corrections.js";
import { forgetDraft, keepDraft, unsentDraft, valuesOf } from "./draft.js";
import { EarlyKeys } from "./early_keys.js";
import { Outbox } from "./outbox.js";
import { clearPending } from "./pending_requests.js";
import { elementsOf, markup, post } from "./server.js";
import { Status } from "./status.js";
import { goTo } from "./steps.js";

const UNSENT = "Your answer is in this browser and will be sent as soon as the server responds.";
/** Dialogs about the displayed item. */
const OF_ITEM = ":is(#skip, #flag, #better, #alternatives)[open]";

class Desk {
  constructor(element, signal) {
    this.element = element;
    this.ahead = [];
    this.acknowledged = 0; // count of answers and undos: responses to requests made before the last of them have outdated numbers
    this.undoings = 0; // count of undos: responses to requests made before the last of them may be the item that it brought back
    this.clock = new Clock(signal);
    this.status = new Status();
    this.early = new EarlyKeys(element, (words) => this.status.showProblem(words), signal);
    this.outbox = new Outbox(element.dataset.desk, {
      alongside: (entry) => this.askedWith(entry),
      accepted: (entry, data) => this.accepted(entry, data),
      refused: (entry, detail) => this.refused(entry, detail),
      changed: () => this.status.showSaving(this.outbox),
      signal,
    });
    this.listen(signal);
    this.begin();
  }

  get shown() {
    return this.element.querySelector("[data-item]");
  }

  async begin() {
    const shown = this.shown;
    if (shown && performance.getEntriesByType("navigation")[0]?.type === "back_forward") {
      this.openAgain(shown);
      return;
    }
    // The last visit's answer to this item may still be in transit.
    if (shown && !this.outbox.has(shown.dataset.item)) {
      this.open(shown);
      this.loadAhead();
      return;
    }
    if (shown) this.replace(this.fromTemplate("item-coming"));
    if (this.outbox.entries.length) await this.outbox.settled();
    if (this.shown) return; // it came with the last response
    if (shown || !document.querySelector("[data-desk-end]")) this.advance();
  }

  /** Back and Forward restore cached pages: items judged since are shown as judged, and can't be judged again. */
  async openAgain(article) {
    this.isLooking = true; // responses to earlier requests arrive after this
    this.replace(this.fromTemplate("item-coming"));
    await this.outbox.settled();
    const detail = this.outbox.has(article.dataset.item) ? UNSENT : await this.refusalOf(article);
    this.isLooking = false;
    if (!detail) {
      this.open(article);
      this.loadAhead();
      return;
    }
    this.replace(this.fromTemplate("item-judged"));
    this.element.querySelector("[data-desk-judged-words]").textContent = detail;
    this.element.querySelector("[data-desk-judged]").focus({ preventScroll: true });
  }

  /** Why this item can't be judged now; "" if it can, as far as the server answers. Tells the server that it's displayed. */
  async refusalOf(article) {
    const { data } = await post(article.querySelector("[data-answer]").dataset.keepUrl);
    return data?.code ? data.detail : "";
  }

  /** An answer names the guidelines that its annotator could read: those of this page, though newer ones come with an item. */
  compareGuidelines(article) {
    const field = article.querySelector("[name=guideline_version]");
    const version = document.getElementById("guidelines")?.dataset.version ?? "0";
    if (field.value === version) return;
    field.value = version;
    const read = { label: "Read them", run: () => location.reload() };
    toast("The guidelines have changed.", { tone: "attention", action: read });
  }

  /** The page comes from the browser's cache, with its state. */
  restored(article) {
    this.setAside(article);
    this.openAgain(article);
  }

  open(article) {
    if (article !== this.shown) {
      this.replace(article);
      this.keep(article);
    }
    this.status.showProblem(this.early.takeWords());
    this.compareGuidelines(article);
    keepDraft(article, () => this.clock.seconds);
    this.clock.start(Number(article.querySelector("[name=seconds]").value) || 0);
    article.querySelector(".desk-scroll").focus({ preventScroll: true });
    this.showClock();
  }

  replace(content) {
    // What is entered there mustn't apply to another item.
    for (const dialog of document.querySelectorAll(OF_ITEM)) dialog.close();
    this.element.replaceChildren(content);
  }

  /** Stops the clock and stores the displayed item's time in its form, so that it continues when the item is shown again. */
  setAside(article) {
    article.querySelector("[name=seconds]").value = this.clock.stop().toFixed(1);
  }

  fromTemplate(id) {
    return document.getElementById(id).content.cloneNode(true);
  }

  advance() {
    const next = this.ahead.shift();
    if (next) this.open(next);
    else this.replace(this.fromTemplate("item-coming"));
    this.loadAhead();
  }

  /** The items displayed and preloaded. */
  get loaded() {
    return [this.shown, ...this.ahead].filter(Boolean).map((article) => article.dataset.item);
  }

  /** The items that the server mustn't return: those loaded, and those whose answers it doesn't have yet. */
  get besides() {
    return [...this.loaded, ...this.outbox.entries.map((entry) => entry.item)];
  }

  /** The next item is returned with the response to the previous answer, if no other request is pending and it will be the only one preloaded. */
  askedWith(entry) {
    const others = this.loaded.filter((item) => item !== entry.item);
    return this.asking || this.undoing || others.length > 1 ? {} : { next: "1", besides: this.besides };
  }

  /** Preloads one item beyond the displayed one once all answers are acknowledged, if the last response had none. */
  async loadAhead() {
    if (this.loading || this.undoing || this.ahead.length) return;
    this.loading = true;
    const settled = await this.outbox.settled();
    if (!settled || this.ahead.length) {
      this.loading = false;
      if (!settled) this.tryLater();
      return;
    }
    const before = this.shown;
    const { acknowledged, undoings } = this;
    this.asking = true;
    const { result, data, detail } = await post(this.element.dataset.next, { besides: this.loaded });
    const content = data?.item ? elementsOf(data.markup) : null;
    this.loading = false;
    this.asking = false;
    if (this.undoing) return; // it will check again when it's done
    if (undoings !== this.undoings) {
      this.loadAhead();
      return;
    }
    if (result === "done") {
      if (acknowledged === this.acknowledged) this.status.showProgress(data.progress);
      this.status.showSaving(this.outbox);
    }
    const article = content?.querySelector("[data-item]");
    if (article) this.arrived(article);
    else if (result === "refused") this.ended(detail);
    else if (result === "done" && !data.item && before && !this.shown)
      this.loadAhead(); // judged meanwhile: check again
    else if (result === "done" && !data.item) this.ended();
    else this.tryLater(detail);
  }

  /** Whether a message is shown that the next item doesn't replace by itself. */
  get isOccupied() {
    return Boolean(this.shown || this.isLooking || this.element.querySelector("[data-desk-judged]"));
  }

  arrived(article) {
    if (this.loaded.includes(article.dataset.item)) return;
    if (this.isOccupied) this.ahead.push(article);
    else {
      this.open(article);
      this.loadAhead();
    }
  }

  ended(words = "") {
    if (this.isOccupied) return;
    this.clock.stop();
    this.replace(this.fromTemplate("nothing-more"));
    this.element.querySelector("[data-desk-end]").focus({ preventScroll: true });
    const say = this.element.querySelector("[data-desk-end-words]");
    if (!say) return; // the queue had already stopped when this page was rendered, which says so
    if (words) say.textContent = words;
    else if (this.status.progress.left === 0) say.textContent = say.dataset.complete;
    this.element.querySelector("[data-desk-mine]").textContent = this.status.progress.mine.toLocaleString();
  }

  tryLater(detail) {
    // Unsaved answers take precedence over missing items, and have been reported.
    if (!this.shown && !this.outbox.trouble) this.status.say(`${detail ?? "The next item didn't load."} Trying again.`);
    setTimeout(() => this.element.isConnected && this.loadAhead(), 3000);
  }

  submit() {
    const article = this.shown;
    const form = article?.querySelector("[data-answer]");
    if (!form || this.undoing) return;
    const check = new CustomEvent("desk:check", { detail: { problem: "" } });
    article.dispatchEvent(check);
    this.status.showProblem(check.detail.problem);
    if (check.detail.problem) return;
    form.elements.seconds.value = this.clock.stop().toFixed(1);
    const [item, url] = [article.dataset.item, form.getAttribute("action")];
    this.outbox.add({ item, url, values: valuesOf(form), texts: textsOf(form) });
    this.advance();
  }

  skip(reason) {
    const article = this.shown;
    if (!article) return;
    const url = article.querySelector("[data-answer]").dataset.skipUrl;
    this.clock.stop();
    // Undoing the skip brings back what was entered up to now.
    this.outbox.add({ item: article.dataset.item, url, values: { reason }, draft: unsentDraft(article) });
    this.advance();
  }

  async flag(reason, lift) {
    const article = this.shown;
    const form = article?.querySelector("[data-answer]");
    if (!form) return;
    const { result, detail } = await post(form.dataset.flagUrl, { reason, ...(lift ? { lift: "1" } : {}) });
    const button = article.querySelector("[data-flag]");
    if (result !== "done") {
      button.dataset.reason = reason; // for another try
      toast(detail, { tone: "bad" });
      return;
    }
    button.setAttribute("aria-pressed", String(!lift));
    button.dataset.reason = lift ? "" : reason;
    button.querySelector("[data-flag-word]").textContent = lift ? "Flag" : "Flagged";
  }

  async undo(url) {
    if (this.undoing) return;
    this.undoing = true;
    const { shown } = this;
    if (shown) shown.inert = true; // keys pressed now are meant for the item that comes back
    const settled = await this.outbox.settled();
    const { result, data, detail } = settled
      ? await post(url)
      : { detail: `${this.outbox.trouble} Undo when it does.` };
    const content = result === "done" ? await markup(data.item) : null;
    this.undoing = false;
    this.undoings += 1;
    if (shown) shown.inert = false;
    if (content) {
      this.takeBack(content.querySelector("[data-item]"), data.progress);
      toast(data.words);
    } else {
      shown?.querySelector(".desk-scroll").focus({ preventScroll: true });
      this.status.showProblem(this.early.takeWords());
      toast(detail ?? "It didn't load. Reload the page.", { tone: result === "refused" ? "attention" : "bad" });
    }
    this.loadAhead();
  }

  /** Shows the item whose answer was undone again; the one displayed now comes after it. */
  takeBack(article, progress) {
    const shown = this.shown;
    if (shown) {
      this.setAside(shown);
      this.ahead.unshift(shown);
    }
    this.acknowledged += 1;
    this.status.showProgress(progress);
    this.open(article);
  }

  /** Tells the server that this item is displayed; an item whose lease was lost meanwhile must not be worked on. */
  async keep(article) {
    const detail = await this.refusalOf(article);
    if (!detail || article !== this.shown) return;
    const texts = textsOf(article.querySelector("[data-answer]"));
    this.advance();
    if (texts.length) this.showTexts(detail, texts);
    else toast(detail, { tone: "attention" });
  }

  /** The server's feedback on an answer: for newcomers, whether it was the expected one. */
  accepted(entry, data) {
    this.acknowledged += 1;
    forgetDraft(entry.item);
    clearPending(entry.item);
    if ("seconds" in entry.values) this.status.countOne();
    this.comesNext(data?.next);
    if (!data?.taught) return;
    const dialog = document.getElementById("taught");
    dialog.querySelector("[data-taught-words]").textContent = data.taught;
    if (!dialog.open) dialog.showModal();
  }

  /** The item returned with the previous answer's response. While an undo is pending it isn't the next: the server will return it again. */
  comesNext(next) {
    if (!next) return;
    this.status.showProgress(next.progress);
    if (!this.undoing) this.arrived(elementsOf(next.markup).querySelector("[data-item]"));
  }

  refused(entry, detail) {
    this.showTexts(detail, entry.texts ?? []);
  }

  /** Shows what was written in a lost answer, so that it can be copied; of several lost answers, all of it. */
  showTexts(detail, lost) {
    const dialog = document.getElementById("refused");
    const words = dialog.querySelector("[data-refused-words]");
    const texts = dialog.querySelector("#refused-texts");
    const before = dialog.open ? texts.textContent : "";
    words.textContent = detail;
    texts.textContent = [before, ...lost].filter(Boolean).join("\n\n");
    dialog.querySelector("[data-refused-text]").hidden = !texts.textContent;
    if (!dialog.open) dialog.showModal();
  }

  showClock() {
    this.status.showClock(this.clock.seconds, Boolean(this.shown));
  }

  listen(signal) {
    this.element.addEventListener(
      "submit",
      (event) => {
        if (!event.target.matches("[data-answer]")) return;
        event.preventDefault();
        this.submit();
      },
      { signal },
    );
    this.element.addEventListener("click", (event) => event.target.closest("[data-desk-look]") && this.advance(), {
      signal,
    });
    // The second click of a double click would submit the next item.
    this.element.addEventListener(
      "click",
      (event) => event.detail > 1 && event.target.closest("[data-submit]") && event.preventDefault(),
      { signal },
    );
    this.element.addEventListener("input", () => this.status.showProblem(""), { signal });
    this.element.addEventListener(
      "keydown",
      (event) => event.key === "Escape" && !event.isComposing && this.stopWriting(event.target),
      { signal },
    );
    addEventListener("pageshow", ({ persisted }) => persisted && this.shown && this.restored(this.shown), { signal });
    bind({ keys: "mod+Enter", label: "Submit while writing", group: "Answer", run: () => this.submit(), signal });
    this.listenToDialogs(signal);
    const ticking = setInterval(() => this.showClock(), 1000);
    const keeping = setInterval(
      () => this.shown && this.clock.isAwake && this.keep(this.shown),
      (Number(this.element.dataset.lease) * 1000) / 3,
    );
    signal.addEventListener("abort", () => {
      clearInterval(ticking);
      clearInterval(keeping);
    });
    addEventListener("pagehide", () => this.ahead.length && post(this.element.dataset.leave, {}, { keepalive: true }), {
      signal,
    });
  }

  /** Back to reading: focuses the head of the step that was written about, or the previous position. */
  stopWriting(field) {
    if (!field.matches("textarea, .walk-row input")) return;
    const row = field.closest(".walk-row");
    if (row) goTo(this.shown, Number(row.dataset.row));
    else this.shown.querySelector(".desk-scroll").focus();
  }

  listenToDialogs(signal) {
    document.querySelector("[data-desk-undo]").addEventListener(
      "submit",
      (event) => {
        event.preventDefault();
        this.undo(event.target.getAttribute("action"));
      },
      { signal },
    );
    document.querySelector("[data-desk-skip]").addEventListener(
      "submit",
      ({ target }) => {
        target.closest("dialog").close(); // closing restores the focus, which must happen before the next item takes it
        this.skip(take(target));
      },
      { signal },
    );
    document
      .querySelector("[data-desk-flag]")
      .addEventListener("submit", ({ target, submitter }) => this.flag(take(target), submitter?.value === "lift"), {
        signal,
      });
    document.addEventListener(
      "click",
      (event) => {
        const button = event.target.closest("[data-flag]");
        if (!button) return;
        document.querySelector("[data-flag-lift]").hidden = button.getAttribute("aria-pressed") !== "true";
        document.querySelector("[data-desk-flag]").elements.reason.value = button.dataset.reason;
      },
      { signal, capture: true },
    );
  }
}

/** The texts that an annotator wrote in an answer. */
function textsOf(form) {
  const { labels, marks, corrections, step_answers: answers } = valuesOf(form);
  const rows = [labels, marks, corrections, answers].flatMap((json) => JSON.parse(json || "[]"));
  const questions = [...form.querySelectorAll("[data-per-step][data-type=text]")].map(
    ({ dataset }) => dataset.question,
  );
  const ofSteps = rows.flatMap(({ index, critique, note, message, answers: ofStep }) =>
    [critique, note, message && inWords(message, Infinity), ...questions.map((question) => ofStep?.[question])]
      .filter(Boolean)
      .map((text) => `Step ${index + 1}: ${text}`),
  );
  const ofItem = [...form.elements].filter(({ type }) => type === "textarea").map(({ value }) => value);
  return [...ofItem, ...ofSteps].filter(Boolean);
}

function take(form) {
  const reason = form.elements.reason.value;
  form.reset();
  return reason;
}

attach("[data-desk]", (element, signal) => new Desk(element, signal));
