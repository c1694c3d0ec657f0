// The errors of a batch, by line, in pages: of its input file where that was refused, else of its
// error file.

import { h } from "./dom.js";
import { count } from "./format.js";

const PAGE = 10;
const MAX_BYTES = 8 << 20; // of an error file; who has more of them downloads it

// What stands first in a body that may be large; {text, whole}.
async function beginning(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return { text, whole: true };
    text += value;
    if (text.length >= MAX_BYTES) {
      await reader.cancel();
      return { text: text.slice(0, text.lastIndexOf("\n") + 1), whole: false };
    }
  }
}

// A line of an error file: an answer that is an error, or an error instead of an answer.
function rowOf(text) {
  const line = JSON.parse(text);
  const error = line.error ?? line.response.body.error;
  const status = line.response?.status_code;
  return { where: line.custom_id, code: error.code ?? error.type ?? status, message: error.message,
    param: error.param };
}

/** {what, rows: [{where, code, message, param}], whole}; null: there are none. */
export async function errorsOf(batch, api) {
  if (batch.errors?.data.length)
    return { what: "Line", whole: true, rows: batch.errors.data.map((error) => (
      { where: error.line ?? "file", code: error.code, message: error.message, param: error.param })) };
  if (!batch.error_file_id) return null;
  const { text, whole } = await beginning(await api.response(`v1/files/${batch.error_file_id}/content`));
  const rows = text.split("\n").filter((line) => line).map(rowOf);
  return { what: "Request", whole, rows };
}

/** A table of `errors`, with buttons where it has several pages. */
export function errorsTable(errors) {
  const { what, rows, whole } = errors;
  const body = h("tbody");
  const place = h("span", { class: "hint", role: "status" });
  const table = h("table", { class: "errors" },
    h("caption", { class: "covert" }, "Errors by line"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, what), h("th", { scope: "col" }, "Error"))), body);
  let first = 0;
  const back = h("button", { type: "button", class: "quiet", onclick: () => turn(first - PAGE) }, "Previous");
  const on = h("button", { type: "button", class: "quiet", onclick: () => turn(first + PAGE) }, "Next");
  const turn = (to) => {
    first = to;
    const last = Math.min(first + PAGE, rows.length);
    body.replaceChildren(...rows.slice(first, last).map(({ where, code, message, param }) =>
      h("tr", {}, h("th", { scope: "row", class: what === "Line" ? "number" : "id" }, String(where)),
        h("td", {}, h("code", {}, String(code)), param ? h("code", {}, param) : null,
          h("p", {}, message)))));
    place.textContent = `${count(first + 1)} to ${count(last)} of ${count(rows.length)}` +
      (whole ? "" : " (the first ones: the error file has more)");
    back.disabled = first === 0;
    on.disabled = last === rows.length;
  };
  turn(0);
  const pages = rows.length > PAGE || !whole;
  return h("div", {}, table, pages ? h("div", { class: "actions" }, back, on, place) : null);
}
