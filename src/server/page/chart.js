// A small line of numbers over time.

import { h, svg } from "./dom.js";
import { number } from "./format.js";

const WIDTH = 300, HEIGHT = 56;

/**
 * `points`: {at, value}, the oldest first; `from`, `to`: the time that is shown; `mark`: a value
 * with a dashed line, null for none; `label`: what it says, in words.
 */
export function chart(points, { from, to, mark, label }) {
  const peak = Math.max(...points.map((point) => point.value), mark ?? 0);
  const top = peak * 1.08 || 1;
  const x = (at) => (((at - from) / (to - from)) * WIDTH).toFixed(1);
  const y = (value) => (HEIGHT - 1 - (value / top) * (HEIGHT - 2)).toFixed(1);
  const line = points.map(({ at, value }) => `${x(at)},${y(value)}`).join(" ");
  const area = `${x(points[0].at)},${HEIGHT} ${line} ${x(points.at(-1).at)},${HEIGHT}`;
  return h("div", { class: "chart" },
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      svg("polygon", { class: "area", points: area }),
      mark ? svg("line", { class: "mark", x1: 0, x2: WIDTH, y1: y(mark), y2: y(mark) }) : null,
      svg("polyline", { class: "line", points: line })),
    h("span", { class: "scale", "aria-hidden": "true" }, number(peak)),
    h("span", { class: "ends", "aria-hidden": "true" }, h("span", {}, "5 min ago"), h("span", {}, "now")));
}
