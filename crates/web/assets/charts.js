// Time series. A chart has its figures as a label too, for readers who do not see the canvas.
import { colourOf } from "./colours.js";
import { clock, cpus, day, make, plain } from "./format.js";

const HEIGHT = 116;
const colour = (line) => variable(`--c${number(line)}`);
// A line of a container has the container's colour; a line of a quantity brings its own.
const number = (line) => line.colour ?? colourOf(line.name);
const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const sync = uPlot.sync("time");

const tick = (span) => (_, values) =>
  values.map((v) => {
    const date = new Date(v * 1000);
    return span > 3 * 86400
      ? day(date).slice(5)
      : span > 86400
        ? `${day(date).slice(5)} ${clock(date).slice(0, 5)}`
        : clock(date).slice(0, span > 1200 ? 5 : 8);
  });

/** Chart: a heading, the canvas, and the names of its lines with their last figures. */
export class Chart {
  #title;
  #onMoment;
  #plot = null;
  #names = "";
  #canvas = make("div", { class: "canvas" });
  #legend = make("ul", { class: "lines small" });
  element;

  constructor(title, onMoment, level = "h3") {
    this.#title = title;
    this.#onMoment = onMoment;
    this.element = make(
      "figure",
      { class: "chart" },
      make(
        "figcaption",
        {},
        make(level, {}, title),
        make("span", { class: "muted small" }, "CPUs"),
      ),
      this.#canvas,
      this.#legend,
    );
    new ResizeObserver(() => this.#fit()).observe(this.#canvas);
    document.addEventListener("theme", () => this.#forget());
  }

  /** @param {number[]} times seconds @param {{name: string, values: (number|null)[]}[]} lines */
  show(times, lines) {
    const shown = lines.length ? lines : [{ name: "nobody", values: times.map(() => 0) }];
    const names = JSON.stringify([
      shown.map((l) => l.name),
      times.length > 1 ? times.at(-1) - times[0] > 1200 : 0,
    ]);
    const data = [times, ...shown.map((l) => l.values)];
    if (names !== this.#names) this.#forget();
    this.#names = names;
    if (this.#plot) this.#plot.setData(data);
    else this.#make(times, shown, data);
    this.#describe(lines);
  }

  #forget() {
    this.#plot?.destroy();
    this.#plot = null;
    this.#names = "";
  }

  #make(times, lines, data) {
    const span = times.length > 1 ? times.at(-1) - times[0] : 0;
    const axis = {
      stroke: variable("--muted"),
      font: "11px system-ui, sans-serif",
      grid: { stroke: variable("--line"), width: 1 },
      ticks: { show: false },
    };
    this.#plot = new uPlot(
      {
        width: Math.max(120, this.#canvas.clientWidth),
        height: HEIGHT,
        padding: [8, 8, 0, 0],
        legend: { show: false },
        cursor: {
          sync: { key: sync.key },
          y: false,
          drag: { x: false, y: false },
          points: { size: 6 },
        },
        scales: { y: { range: (_, __, max) => [0, Math.max(0.1, (max ?? 0) * 1.08)] } },
        axes: [
          { ...axis, size: 22, space: 70, values: tick(span) },
          {
            ...axis,
            size: 38,
            space: 26,
            values: (_, v) =>
              v.map((n) => (n >= 10 ? n.toFixed(0) : n.toFixed(n < 0.1 && n > 0 ? 2 : 1))),
          },
        ],
        series: [
          {},
          ...lines.map((line) => ({
            label: line.name,
            stroke: colour(line),
            width: 1.5,
            points: { show: false },
            spanGaps: false,
            fill: lines.length === 1 ? `${colour(line)}22` : undefined,
          })),
        ],
        hooks: { setCursor: [(plot) => this.#point(plot.cursor.idx)] },
      },
      data,
      this.#canvas,
    );
    this.#plot.over.addEventListener("click", () => {
      const at = this.#plot?.cursor.idx;
      if (at !== null && at !== undefined) this.#onMoment(this.#plot.data[0][at] * 1000);
    });
  }

  #fit() {
    const width = Math.max(120, this.#canvas.clientWidth);
    if (this.#plot && Math.abs(this.#plot.width - width) > 1)
      this.#plot.setSize({ width, height: HEIGHT });
  }

  // Shows the figures under the pointer, otherwise the last ones.
  #point(index) {
    if (!this.#plot) return;
    [...this.#legend.querySelectorAll(".num")].forEach((element, i) => {
      const values = this.#plot.data[i + 1] ?? [];
      element.textContent = cpus(
        index === null || index === undefined ? latest(values) : values[index],
      );
    });
  }

  #describe(lines) {
    const items = lines.map((line) =>
      make(
        "li",
        {},
        make("span", { class: `chip c${number(line)}`, "aria-hidden": "true" }),
        make("span", { class: "name", title: plain(line.name) }, plain(line.name)),
        make("span", { class: "num" }, cpus(latest(line.values))),
      ),
    );
    this.#legend.replaceChildren(
      ...(items.length ? items : [make("li", { class: "muted" }, "nobody")]),
    );
    const most = (values) => values.reduce((a, b) => Math.max(a, b ?? 0), 0);
    const text = lines
      .map(
        (l) =>
          `${plain(l.name)}: now ${cpus(latest(l.values))}, at most ${cpus(most(l.values))} CPUs`,
      )
      .join("; ");
    this.#canvas.setAttribute("role", "img");
    this.#canvas.setAttribute("aria-label", `${this.#title}. ${text || "nobody"}`);
    if (this.#plot?.cursor.idx != null) this.#point(this.#plot.cursor.idx);
  }
}

const latest = (values) => {
  for (let i = values.length - 1; i >= 0; i -= 1)
    if (values[i] !== null && values[i] !== undefined) return values[i];
  return null;
};
