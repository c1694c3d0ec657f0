// Reads Prometheus' text format, as /metrics has it.

const SAMPLE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;
const ESCAPES = { n: "\n", "\\": "\\", '"': '"' };
const SPECIAL = { "+Inf": Infinity, Inf: Infinity, "-Inf": -Infinity };

function labelsOf(text) {
  const labels = {};
  for (const [, name, value] of (text ?? "").matchAll(LABEL))
    labels[name] = value.replace(/\\(.)/g, (all, c) => ESCAPES[c] ?? all);
  return labels;
}

/** The samples of one scrape. */
export class Metrics {
  #samples = new Map(); // by name: [{labels, value}]

  constructor(text) {
    for (const line of text.split("\n")) {
      const found = line.match(SAMPLE); // comments begin with '#'
      if (!found) continue;
      const [, name, labels, value] = found;
      if (!this.#samples.has(name)) this.#samples.set(name, []);
      this.#samples.get(name).push({ labels: labelsOf(labels), value: SPECIAL[value] ?? Number(value) });
    }
  }

  /** All samples of that name that have these labels. */
  all(name, labels = {}) {
    const wanted = Object.entries(labels);
    return (this.#samples.get(name) ?? []).filter((sample) =>
      wanted.every(([key, value]) => sample.labels[key] === value));
  }

  /** Their sum; null where there is none. */
  value(name, labels = {}) {
    const found = this.all(name, labels);
    return found.length ? found.reduce((sum, sample) => sum + sample.value, 0) : null;
  }
}
