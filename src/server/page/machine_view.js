// "Machine": throughput, sweeps against the plan, what computing waits for, bytes by tier.

import { chart } from "./chart.js";
import { byId, h, setAttribute, setText } from "./dom.js";
import { bytes, bytesPerSecond, count, duration, number, percent } from "./format.js";
import { History } from "./history.js";
import { sweeps, tiers, tokens, traffic, waits } from "./machine.js";

const MINUTE = 60, SMOOTHED = 15, CHART = 300; // seconds
const COUNTER = "barge:generation_tokens_total";

/** A bar in pieces, as wide as their shares of 1. What it says stands in a list beside it. */
function stack(shares) {
  const bar = h("div", { class: "stack", "aria-hidden": "true" });
  shares.forEach((share, index) => {
    const piece = h("span", { class: `piece piece-${index}` });
    piece.style.flexBasis = `${share * 100}%`;
    piece.hidden = share <= 0;
    bar.append(piece);
  });
  return bar;
}

/** The list beside it: [title, text, index of its piece]. */
function legend(items) {
  return h("ul", { class: "legend" }, ...items.map(([title, text, index]) =>
    h("li", {}, h("span", { class: `key piece-${index}`, "aria-hidden": "true" }), `${title} `, h("b", {}, text))));
}

function bar(title, seconds, longest, kind) {
  const piece = h("span", { class: `measure ${kind}` });
  piece.style.inlineSize = `${(seconds / longest) * 100}%`;
  return h("div", { class: "against" }, h("span", {}, title), h("span", { class: "track", "aria-hidden": "true" }, piece),
    h("b", {}, seconds < 10 ? `${number(seconds)} s` : duration(seconds)));
}

export class MachineView {
  #minute = new History(MINUTE);
  #recent = new History(SMOOTHED);
  #points = []; // {at, value}: tokens a second
  #body = byId("machine-body");

  constructor() {
    const part = (title) => {
      const content = h("div");
      this.#body.append(h("section", {}, h("h3", {}, title), content));
      return content;
    };
    this.throughput = part("Throughput");
    this.sweeps = part("Sweeps, last minute");
    this.waits = part("Where the last minute went");
    this.tiers = part("Bytes by tier");
    this.requests = part("Requests in the engine");
  }

  update(at, metrics) {
    const known = metrics.value(COUNTER) !== null;
    byId("no-machine").hidden = known;
    this.#body.hidden = !known;
    if (!known) return;
    this.#minute.add(at, metrics, COUNTER);
    this.#recent.add(at, metrics, COUNTER);
    this.#updateThroughput(at);
    this.#updateSweeps();
    this.#updateWaits();
    this.tiers.replaceChildren(...tiers(metrics).map((tier) => this.#tier(tier)));
    const of = (name) => count(metrics.value(`barge:${name}`) ?? 0);
    this.requests.replaceChildren(h("p", {}, h("b", {}, of("num_requests_running")), " running, ",
      h("b", {}, of("num_requests_waiting")), " waiting, ", h("b", {}, of("num_requests_swapped")), " put aside; ",
      h("b", {}, percent(metrics.value("barge:kv_cache_usage_perc") ?? 0)), " of the KV cache in use"));
  }

  #updateThroughput(at) {
    const now = this.#recent.rate(COUNTER);
    if (now === null) return this.throughput.replaceChildren(h("p", { class: "hint" }, "Measuring"));
    this.#points = [...this.#points.filter((point) => point.at > at - CHART), { at, value: now }];
    const { generated, prompt, planned } = tokens(this.#minute);
    const text = `${number(generated)} tokens/s generated in the last minute` +
      (planned === null ? "" : `, ${number(planned)} planned while it sweeps`);
    this.throughput.replaceChildren(
      h("p", {}, h("span", { class: "big" }, number(now)), " tokens/s generated now"),
      chart(this.#points, { from: at - CHART, to: at, mark: planned, label: text }),
      h("p", { class: "hint" }, `${text}; ${number(prompt ?? 0)} tokens/s of prompts`));
  }

  #updateSweeps() {
    const found = sweeps(this.#minute);
    if (!found) return this.sweeps.replaceChildren(h("p", { class: "hint" }, "None"));
    const { actual, planned } = found;
    const longest = Math.max(actual, planned);
    const off = planned > 0 ? actual / planned - 1 : 0;
    const verdict = planned <= 0 ? "" : Math.abs(off) < 0.01 ? "as planned"
      : `${percent(Math.abs(off))} ${off > 0 ? "longer" : "shorter"} than planned`;
    this.sweeps.replaceChildren(bar("Actual", actual, longest, "actual"), bar("Planned", planned, longest, "planned"),
      h("p", { class: "hint" }, `Mean of ${count(found.count)}: ${verdict}`));
  }

  #updateWaits() {
    const found = waits(this.#minute);
    if (!found) return this.waits.replaceChildren(h("p", { class: "hint" }, "Measuring"));
    const index = (at) => (at === found.length - 1 ? "rest" : at);
    const picture = stack(found.map(({ share }) => share));
    setAttribute(picture.lastChild, "class", "piece piece-rest");
    this.waits.replaceChildren(picture,
      legend(found.map(({ title, share }, at) => [title, percent(share), index(at)])));
  }

  #tier({ name, title, capacity, used, parts }) {
    const head = h("p", { class: "tier" }, h("span", {}, title), h("b"));
    setText(head.lastChild, `${bytes(used)} of ${bytes(capacity)}`);
    const moved = traffic(this.#minute, name).map(({ title: direction, bytesPerSecond: rate, busy }) =>
      `${direction} ${bytesPerSecond(rate)}, busy ${percent(busy)}`);
    return h("div", { class: "tier-block" }, head, stack(parts.map(([, n]) => n / capacity)),
      legend(parts.map(([part, n], index) => [part, bytes(n), index])),
      moved.length ? h("p", { class: "hint" }, moved.join(" · ")) : null);
  }
}
