// The page: asks the server again and again, and gives what it says to the views.

import { Api } from "./api.js";
import { isEnded } from "./batch.js";
import { BatchList } from "./batch_list.js";
import { BatchView } from "./batch_view.js";
import { byId, setAttribute, setText } from "./dom.js";
import { count, plural } from "./format.js";
import { MachineView } from "./machine_view.js";
import { Metrics } from "./prometheus.js";
import { UploadView } from "./upload.js";

const BUSY_MS = 1000, IDLE_MS = 4000; // between two questions
const PATIENCE = 4; // times as long as they took, at least: lists with many errors are large
const PAGE = 20; // batches
const STATES = { ready: "Ready", loading: "Loading the model", failed: "Failed", lost: "Not reachable",
  locked: "Needs a key" };

const api = new Api(askForKey);
const batches = new Map(); // by id
const names = new Map(); // of input files, by id
let metrics = null;
let model = null;
let hasOlder = false;
let oldest = null; // the last batch of the list that was asked for
let ranks = new Map(); // within the first page, by id: many may come in one second
let shown = null; // the batch that is looked at, unless the address names another
let timer = 0;
let asking = false, askAgain = false;
let keyDeclined = false; // the dialog isn't shown again by itself

const list = new BatchList((id) => { location.hash = id; });
const view = new BatchView(api, confirmCancel);
const machine = new MachineView();
new UploadView(api, () => model, (batch, name) => {
  names.set(batch.input_file_id, name);
  batches.set(batch.id, batch);
  ranks.set(batch.id, -1); // before those that the server has listed so far
  location.hash = batch.id;
  render();
  view.focus();
  refresh();
});

const rank = (batch) => ranks.get(batch.id) ?? PAGE;
const newestFirst = () => [...batches.values()].sort((a, b) => b.created_at - a.created_at || rank(a) - rank(b));
const nameOf = (fileId) => names.get(fileId) || "Unnamed file";

function selected() {
  shown = batches.get(location.hash.slice(1)) ?? batches.get(shown?.id)
    ?? newestFirst().find((batch) => batch.status === "in_progress") ?? newestFirst()[0] ?? null;
  return shown;
}

function render() {
  const batch = selected();
  list.update(newestFirst(), nameOf, metrics, batch?.id);
  view.update(batch, batch && nameOf(batch.input_file_id), metrics);
  byId("older").hidden = !hasOlder;
}

function showState(state) {
  setAttribute(byId("state"), "data-state", state);
  setText(byId("state"), STATES[state] ?? state);
}

/** `source` ("ask" or "act"): that which works again takes back only its own complaint. */
function complain(source, problem) {
  const banner = byId("banner");
  if (!problem && banner.dataset.source !== source) return;
  banner.dataset.source = source;
  banner.hidden = !problem;
  if (problem) setText(banner, problem.message);
}

// --- Asking -----------------------------------------------------------------------------------

function take(batch) {
  const before = batches.get(batch.id);
  batches.set(batch.id, batch);
  if (before && before.status !== batch.status && (isEnded(batch) || batch.status === "in_progress"))
    view.say(batch, nameOf(batch.input_file_id));
}

async function askNames() {
  const unknown = new Set([...batches.values()].map((batch) => batch.input_file_id));
  await Promise.all([...unknown].filter((id) => !names.has(id)).map(async (id) => {
    names.set(id, ""); // asked for
    try {
      names.set(id, (await api.get(`v1/files/${encodeURIComponent(id)}`)).filename);
    } catch (problem) {
      if (problem.status === 404) names.set(id, "Deleted file");
      else names.delete(id);
    }
  }));
}

async function askBatches() {
  const page = await api.get(`v1/batches?limit=${PAGE}`);
  page.data.forEach(take);
  ranks = new Map(page.data.map((batch, index) => [batch.id, index]));
  if (oldest === null) {
    oldest = page.last_id;
    hasOlder = page.has_more;
  }
  // Those that have left the first page, and one that a link names.
  const seen = new Set(page.data.map((batch) => batch.id));
  const others = [...batches.values()].filter((batch) => !seen.has(batch.id) && !isEnded(batch));
  const named = location.hash.slice(1);
  const ids = others.map((batch) => batch.id);
  if (named.startsWith("batch_") && !batches.has(named)) ids.push(named);
  for (const id of ids) {
    try {
      take(await api.get(`v1/batches/${encodeURIComponent(id)}`));
    } catch (problem) {
      if (problem.status !== 404) throw problem;
      if (id === named) history.replaceState(null, "", location.pathname); // it isn't there
      batches.delete(id);
    }
  }
}

async function ask() {
  const state = await api.health();
  if (state === "lost") {
    showState(state);
    throw new Error("The server can't be reached. It is asked again every few seconds.");
  }
  const at = performance.now() / 1000;
  metrics = new Metrics(await api.text("metrics"));
  machine.update(at, metrics);
  showState(state);
  if (model === null) model = (await api.get("v1/models")).data[0].id;
  setText(byId("model"), model);
  await askBatches();
  await askNames();
}

async function refresh() {
  if (asking) {
    askAgain = true;
    return;
  }
  clearTimeout(timer);
  asking = true;
  askAgain = false;
  const began = performance.now();
  try {
    await ask();
    complain("ask", null);
  } catch (problem) {
    if (problem.status === 401) showState("locked");
    else complain("ask", problem);
  }
  asking = false;
  render();
  if (askAgain) return refresh();
  const busy = [...batches.values()].some((batch) => !isEnded(batch));
  const pause = Math.max(busy ? BUSY_MS : IDLE_MS, PATIENCE * (performance.now() - began));
  // Nobody looks, or nobody may: nothing is asked until that changes.
  if (!document.hidden && byId("state").dataset.state !== "locked") timer = setTimeout(refresh, pause);
}

byId("older").addEventListener("click", async () => {
  try {
    const page = await api.get(`v1/batches?limit=${PAGE}&after=${encodeURIComponent(oldest)}`);
    page.data.forEach(take);
    oldest = page.last_id ?? oldest;
    hasOlder = page.has_more;
    await askNames();
    complain("act", null);
  } catch (problem) {
    complain("act", problem);
  }
  render();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
addEventListener("hashchange", () => { render(); refresh(); });

// --- The key ----------------------------------------------------------------------------------

function askForKey() {
  const dialog = byId("key-dialog");
  if (dialog.open || keyDeclined) return;
  setText(byId("key-problem"), api.key ? "The server doesn't know this key." : "");
  byId("key").value = api.key;
  dialog.returnValue = "";
  dialog.showModal();
  byId("key").select();
}

byId("change-key").addEventListener("click", () => {
  keyDeclined = false;
  askForKey();
  setText(byId("key-problem"), "");
});
byId("key-close").addEventListener("click", () => byId("key-dialog").close());
byId("key-dialog").addEventListener("close", (event) => {
  keyDeclined = event.target.returnValue !== "given";
  if (!keyDeclined) refresh();
});
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const key = byId("key").value.trim();
  if (key !== api.key) { // another key, other batches
    batches.clear();
    names.clear();
    oldest = shown = null;
    list.clear();
  }
  api.key = key;
  byId("key-dialog").close("given");
});

// --- Cancelling -------------------------------------------------------------------------------

function confirmCancel(batch, name) {
  const { completed, failed } = batch.request_counts;
  const kept = completed + failed;
  setText(byId("cancel-text"), kept
    ? `${name}: ${plural(kept, "line")} that ${kept === 1 ? "is" : "are"} answered can be downloaded afterwards; the others get an error line.`
    : `${name}: no line is answered yet.`);
  byId("cancel-yes").onclick = async () => {
    byId("cancel-dialog").close();
    try {
      take(await api.post(`v1/batches/${encodeURIComponent(batch.id)}/cancel`));
      complain("act", null);
    } catch (problem) {
      complain("act", problem);
    }
    refresh();
  };
  byId("cancel-dialog").showModal();
}
byId("cancel-no").addEventListener("click", () => byId("cancel-dialog").close());

refresh();
