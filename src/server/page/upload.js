// "New batch": choose or drop a file, see whether it will do, upload it, create its batch.

import { announce, byId, h, setText } from "./dom.js";
import { bytes, percent } from "./format.js";
import { inspect } from "./jsonl.js";

export class UploadView {
  #api;
  #model; // () => name, or null
  #onCreated; // (batch) => …
  #chosen = byId("chosen");
  #drop = byId("drop");
  #input = byId("file");

  constructor(api, model, onCreated) {
    this.#api = api;
    this.#model = model;
    this.#onCreated = onCreated;
    this.#input.addEventListener("change", () => {
      if (this.#input.files.length) this.#choose(this.#input.files[0]);
      this.#input.value = ""; // the same file may be chosen again
    });
    // Anywhere on the page: one that misses the box must not replace the page.
    addEventListener("dragover", (event) => {
      event.preventDefault();
      this.#drop.classList.add("over");
    });
    addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) this.#drop.classList.remove("over");
    });
    addEventListener("drop", (event) => {
      event.preventDefault();
      this.#drop.classList.remove("over");
      const file = event.dataTransfer.files[0];
      if (file && !this.#drop.hidden) this.#choose(file);
    });
  }

  #show(...children) {
    this.#chosen.replaceChildren(...children);
    this.#chosen.hidden = false;
    this.#drop.hidden = true;
  }

  #reset() {
    this.#chosen.hidden = true;
    this.#drop.hidden = false;
    this.#input.focus();
  }

  #title(file, more) {
    return h("p", { class: "file" }, h("strong", {}, file.name), ` ${bytes(file.size)}${more}`);
  }

  #another(text = "Choose another") {
    return h("button", { type: "button", class: "quiet", onclick: () => this.#reset() }, text);
  }

  async #choose(file) {
    const { endpoint, problems } = await inspect(file, this.#model());
    if (problems.length) {
      const items = problems.map(({ line, message }) =>
        h("li", {}, line === null ? message : `Line ${line} ${message}.`));
      const another = this.#another();
      this.#show(this.#title(file, ""),
        h("div", { class: "problem", role: "alert" },
          h("p", {}, "The server would refuse this file:"), h("ul", {}, ...items)),
        h("div", { class: "actions" }, another));
      another.focus();
      return;
    }
    const start = h("button", { type: "button", class: "primary", id: "start",
      onclick: () => this.#upload(file, endpoint) }, "Upload and start");
    this.#show(this.#title(file, ` for ${endpoint}`), h("div", { class: "actions" }, start, this.#another()));
    start.focus();
  }

  async #upload(file, endpoint) {
    const abort = new AbortController();
    const bar = h("progress", { max: 1, value: 0, "aria-label": `Upload of ${file.name}` });
    const text = h("span", { class: "hint" }, "Uploading");
    const stop = h("button", { type: "button", class: "quiet", onclick: () => abort.abort() }, "Stop");
    this.#show(this.#title(file, ""), h("div", { class: "upload" }, bar, text),
      h("div", { class: "actions" }, stop));
    stop.focus();
    const onProgress = (sent, total) => {
      bar.value = total ? sent / total : 0;
      setText(text, sent < total ? `${percent(bar.value)}, ${bytes(sent)} of ${bytes(total)}` : "Storing it");
    };
    try {
      const uploaded = await this.#api.upload(file, onProgress, abort.signal);
      stop.disabled = true; // it is there: what is left takes no time
      const batch = await this.#api.post("v1/batches",
        { input_file_id: uploaded.id, endpoint, completion_window: "24h" });
      this.#reset();
      announce(`${file.name} is uploaded, its batch begins.`);
      this.#onCreated(batch, file.name);
    } catch (problem) {
      if (problem.name === "AbortError") return this.#reset();
      const again = h("button", { type: "button", class: "primary",
        onclick: () => this.#upload(file, endpoint) }, "Try again");
      this.#show(this.#title(file, ""), h("p", { class: "problem", role: "alert" }, problem.message),
        h("div", { class: "actions" }, again, this.#another()));
    }
  }
}
