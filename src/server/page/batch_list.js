// The table of batches. Rows stay where they are while their numbers change: focus survives.

import { done, isEnded, share, statusWord, timeText } from "./batch.js";
import { byId, h, setAttribute, setText } from "./dom.js";
import { count, moment } from "./format.js";

class Row {
  constructor(batch, onSelect) {
    this.name = h("button", { type: "button", class: "link", onclick: () => onSelect(batch.id) });
    this.status = h("td", { class: "status" });
    this.bar = h("progress", { max: 1 });
    this.lines = h("span", {});
    this.time = h("td", { class: "number time" });
    this.element = h("tr", { "data-batch": batch.id },
      h("th", { scope: "row" }, this.name), this.status,
      h("td", {}, h("div", { class: "lines" }, this.bar, this.lines)),
      this.time, h("td", { class: "number wide" }, moment(batch.created_at)));
  }

  update(batch, name, metrics, selected) {
    const { total, failed } = batch.request_counts;
    setText(this.name, name);
    setAttribute(this.name, "aria-current", selected);
    setText(this.status, statusWord(batch));
    setAttribute(this.status, "data-status", batch.status);
    this.bar.hidden = !total;
    this.bar.value = share(batch) ?? 0;
    setAttribute(this.bar, "aria-label", `Lines of ${name} that are answered`);
    const failures = failed ? `, ${count(failed)} failed` : "";
    const lines = !total ? "–" : isEnded(batch) && done(batch) === total
      ? `${count(total)}${failures}` : `${count(done(batch))} of ${count(total)}${failures}`;
    setText(this.lines, lines);
    setText(this.time, timeText(batch, metrics));
  }
}

export class BatchList {
  #rows = new Map(); // by id
  #onSelect;
  #body = byId("list").tBodies[0];

  constructor(onSelect) {
    this.#onSelect = onSelect;
  }

  /** `batches`: the newest first; they come, but never go. */
  update(batches, names, metrics, selected) {
    byId("list").hidden = batches.length === 0;
    byId("no-batches").hidden = batches.length > 0;
    batches.forEach((batch, index) => {
      if (!this.#rows.has(batch.id)) this.#rows.set(batch.id, new Row(batch, this.#onSelect));
      const row = this.#rows.get(batch.id);
      row.update(batch, names(batch.input_file_id), metrics, batch.id === selected);
      if (this.#body.children[index] !== row.element)
        this.#body.insertBefore(row.element, this.#body.children[index] ?? null);
    });
  }

  clear() {
    this.#rows.clear();
    this.#body.replaceChildren();
  }
}
