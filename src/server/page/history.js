// What the last seconds' scrapes say together.

/** Scrapes of the last `seconds`. */
export class History {
  #scrapes = []; // {at: seconds, metrics}, the oldest first

  constructor(seconds) {
    this.seconds = seconds;
  }

  /**
   * What was before is forgotten where nobody asked for long, and where a counter went back: then
   * the server was started again.
   */
  add(at, metrics, counter) {
    const last = this.#scrapes.at(-1);
    const broken = last && (at - last.at > this.seconds || metrics.value(counter) < last.metrics.value(counter));
    if (broken) this.#scrapes = [];
    this.#scrapes.push({ at, metrics });
    // One that is older stays, so that the whole time is covered.
    while (this.#scrapes.length > 2 && this.#scrapes[1].at <= at - this.seconds)
      this.#scrapes.shift();
  }

  /** Seconds between the oldest and the newest. */
  get span() {
    return this.#scrapes.length < 2 ? 0 : this.#scrapes.at(-1).at - this.#scrapes[0].at;
  }

  /** How far a counter rose in `span`; null: not known. */
  rise(name, labels = {}) {
    if (this.#scrapes.length < 2) return null;
    const last = this.#scrapes.at(-1).metrics.value(name, labels);
    // One that wasn't there yet was 0.
    return last === null ? null : last - (this.#scrapes[0].metrics.value(name, labels) ?? 0);
  }

  /** The same for a second. */
  rate(name, labels = {}) {
    const rise = this.rise(name, labels);
    return rise === null || this.span <= 0 ? null : rise / this.span;
  }
}
