// The batch that is looked at: how far it is, what can be done with it, what went wrong.

import { canCancel, done, isEnded, linesPerSecond, moments, secondsLeft, share, shareText,
  statusWord } from "./batch.js";
import { announce, byId, h, setAttribute, setText } from "./dom.js";
import { errorsOf, errorsTable } from "./errors_table.js";
import { count, duration, number, plural } from "./format.js";

const FIGURES = ["Answered", "Failed", "Rate", "Time left", "Prompt tokens", "Answer tokens"];

export class BatchView {
  #api;
  #onCancel; // (batch, name) => …
  #section = byId("batch");
  #id = null;
  #errorsShown = null; // what they were made of

  constructor(api, onCancel) {
    this.#api = api;
    this.#onCancel = onCancel;
  }

  #build() {
    this.#errorsShown = null;
    this.title = h("h2", { id: "batch-title", tabindex: -1 });
    this.status = h("span", { class: "status" });
    this.bar = h("progress", { max: 1, "aria-labelledby": "batch-title" });
    this.lines = h("p", { class: "big" });
    this.figures = Object.fromEntries(FIGURES.map((name) => [name, h("dd")]));
    this.times = h("p", { class: "hint" });
    this.cancel = h("button", { type: "button", class: "quiet", id: "cancel" }, "Cancel");
    this.output = this.#download("Answers", "output");
    this.errorFile = this.#download("Error file", "error");
    this.errors = h("div", { id: "errors" });
    this.problem = h("p", { class: "problem", role: "alert", hidden: true });
    this.#section.replaceChildren(
      h("div", { class: "heading" }, this.title, this.status),
      this.lines, this.bar,
      h("dl", { class: "figures" }, ...FIGURES.map((name) => h("div", {}, h("dt", {}, name), this.figures[name]))),
      h("div", { class: "actions" }, this.output, this.errorFile, this.cancel),
      this.problem, this.times, this.errors);
  }

  #download(text, kind) {
    const link = h("a", { class: "button", download: "", id: `download-${kind}`, hidden: true }, `Download ${text.toLowerCase()}`);
    // A link can't send a key along.
    link.addEventListener("click", (event) => {
      if (!this.#api.key) return;
      event.preventDefault();
      this.#fetchFile(link).catch((problem) => this.#complain(problem.message));
    });
    return link;
  }

  async #fetchFile(link) {
    const blob = await (await this.#api.response(link.getAttribute("href"))).blob();
    const url = URL.createObjectURL(blob);
    h("a", { href: url, download: link.download }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  }

  #complain(message) {
    setText(this.problem, message);
    this.problem.hidden = false;
  }

  /** Shows `batch`; null: none. */
  update(batch, name, metrics) {
    this.#section.hidden = !batch;
    if (!batch) {
      this.#id = null;
      return;
    }
    if (batch.id !== this.#id) this.#build();
    this.#id = batch.id;
    const { total, completed, failed } = batch.request_counts;
    setText(this.title, name);
    setText(this.status, statusWord(batch));
    setAttribute(this.status, "data-status", batch.status);
    this.#updateLines(batch, total);
    const rate = linesPerSecond(batch, metrics);
    const left = secondsLeft(batch, metrics);
    const figures = {
      Answered: total ? count(completed) : "–",
      Failed: total ? count(failed) : "–",
      Rate: rate === null ? "–" : rate < 1 ? `${number(rate * 60)} lines/min` : `${number(rate)} lines/s`,
      "Time left": left === null ? "–" : duration(left),
      "Prompt tokens": batch.usage ? count(batch.usage.input_tokens) : "–",
      "Answer tokens": batch.usage ? count(batch.usage.output_tokens) : "–",
    };
    for (const [key, text] of Object.entries(figures)) setText(this.figures[key], text);
    setText(this.times, moments(batch).map((pair) => pair.join(" ")).join(" · ") + ` · ${batch.id}`);
    this.cancel.hidden = !canCancel(batch);
    this.cancel.onclick = () => this.#onCancel(batch, name);
    this.#updateLink(this.output, batch.output_file_id, name, "answers");
    this.#updateLink(this.errorFile, batch.error_file_id, name, "errors");
    this.#updateErrors(batch);
  }

  #updateLines(batch, total) {
    const at = share(batch);
    const running = !isEnded(batch);
    this.bar.hidden = !running && at === null;
    if (at !== null) this.bar.value = at;
    else this.bar.removeAttribute("value"); // at work, nobody knows how long
    setText(this.lines, at === null
      ? (running ? "Waiting for its turn, then its lines are checked" : `${plural(batch.errors?.data.length ?? 0, "line")} refused; nothing was run`)
      : `${count(done(batch))} of ${plural(total, "line")}, ${shareText(batch)}`);
  }

  #updateLink(link, fileId, name, kind) {
    link.hidden = !fileId;
    if (!fileId) return;
    setAttribute(link, "href", `v1/files/${fileId}/content`);
    setAttribute(link, "download", `${name.replace(/\.jsonl$/, "")}-${kind}.jsonl`);
  }

  #updateErrors(batch) {
    const source = batch.errors ? batch.id : batch.error_file_id;
    if (!source || source === this.#errorsShown) return;
    this.#errorsShown = source;
    const target = this.errors;
    errorsOf(batch, this.#api).then((errors) => {
      if (errors) target.replaceChildren(h("h3", {}, "Errors"), errorsTable(errors));
    }, (problem) => this.#complain(`The errors can't be shown: ${problem.message}`));
  }

  /** For those who have just made it: what happens now is here. */
  focus() {
    this.title?.focus();
  }

  say(batch, name) {
    const { failed } = batch.request_counts;
    announce(`${name}: ${statusWord(batch).toLowerCase()}` + (failed ? `, ${plural(failed, "line")} failed.` : "."));
  }
}
