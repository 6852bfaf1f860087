// Transfers of CPU time: bands from offenders to victims, scaled by CPU time, and a table of them.
import { colourOf } from "./colours.js";
import { cpus, make, plain } from "./format.js";
import { hash } from "./place.js";

const MOST = 8;
const GAP = 10;
const LEAST = 20;
const NS = "http://www.w3.org/2000/svg";
const HEIGHT = 220;

const box = document.getElementById("flow");
const toggle = document.getElementById("flow-toggle");
let asTable = false;
let last = null;

toggle.addEventListener("click", () => {
  asTable = !asTable;
  toggle.setAttribute("aria-pressed", String(asTable));
  if (last) showFlow(last);
});

const label = (id, name) =>
  id === null ? "packets of no container" : plain(name ?? "a container that is gone");

/** Largest ends of the transfers; the rest is summed up as one. */
const ends = (flows, key, name) => {
  const by = new Map();
  for (const flow of flows) {
    const id = flow[key];
    const end = by.get(id) ?? { id, name: label(id, flow[name]), sum: 0 };
    end.sum += flow.cpus;
    by.set(id, end);
  }
  const all = [...by.values()].sort((a, b) => b.sum - a.sum);
  if (all.length <= MOST) return all;
  const rest = all.slice(MOST - 1);
  const sum = rest.reduce((s, e) => s + e.sum, 0);
  return [
    ...all.slice(0, MOST - 1),
    { id: "rest", name: `${rest.length} others`, sum, of: new Set(rest.map((e) => e.id)) },
  ];
};

/** Class of a band: it has the colour of the offender, as in the charts. */
const hue = (id, name) => (id === null ? "none" : `c${colourOf(name ?? id)}`);

const place = (list, scale) => {
  let y = 0;
  for (const end of list) {
    end.y = y;
    end.height = Math.max(LEAST, end.sum * scale);
    end.used = 0;
    y += end.height + GAP;
  }
  return y - GAP;
};

const find = (list, id) => list.find((e) => e.id === id || e.of?.has(id));

export const showFlow = (frame) => {
  last = frame;
  const flows = frame.flows;
  toggle.hidden = flows.length === 0;
  if (flows.length === 0) {
    if (box.dataset.shown !== "none")
      box.replaceChildren(make("p", { class: "none" }, "No container pays for another."));
    box.dataset.shown = "none";
    return;
  }
  box.dataset.shown = "some";
  const text = flows.map(
    (f) =>
      `${label(f.from, f.from_name)} takes ${cpus(f.cpus)} CPUs ` +
      `from ${label(f.to, f.to_name)} on CPU ${f.cpu}`,
  );
  box.replaceChildren(picture(flows, text), table(flows));
};

const picture = (flows, text) => {
  const from = ends(flows, "from", "from_name");
  const to = ends(flows, "to", "to_name");
  const total = flows.reduce((s, f) => s + f.cpus, 0);
  const scale = (HEIGHT - GAP * Math.max(from.length, to.length)) / Math.max(total, 0.001);
  const height = Math.max(place(from, scale), place(to, scale));
  const svg = document.createElementNS(NS, "svg");
  svg.setAttribute("viewBox", `0 0 100 ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const more = text.length > 3 ? `; ${text.length - 3} more in the table` : "";
  svg.setAttribute("aria-label", `Flows: ${text.slice(0, 3).join("; ")}${more}`);
  svg.style.height = `${height}px`;
  flows.forEach((flow, i) => {
    const a = find(from, flow.from);
    const b = find(to, flow.to);
    const share = (end) => (end.height * flow.cpus) / end.sum;
    const [ya, yb, ha, hb] = [a.y + a.used, b.y + b.used, share(a), share(b)];
    a.used += ha;
    b.used += hb;
    const path = document.createElementNS(NS, "path");
    path.setAttribute(
      "d",
      `M0 ${ya} C50 ${ya} 50 ${yb} 100 ${yb} ` +
        `V${yb + hb} C50 ${yb + hb} 50 ${ya + ha} 0 ${ya + ha} Z`,
    );
    path.setAttribute("class", `band ${hue(flow.from, flow.from_name)}`);
    const title = document.createElementNS(NS, "title");
    title.textContent = text[i];
    path.append(title);
    svg.append(path);
  });
  const side = (list, name) => {
    const column = make("ul", { class: `ends ${name}` });
    column.style.height = `${height}px`;
    for (const end of list) {
      const known = end.id !== null && end.id !== "rest";
      const what = known
        ? make("a", { href: hash({ container: end.id }), title: end.name }, end.name)
        : make("span", { title: end.name }, end.name);
      const chip =
        name === "from" &&
        make("span", {
          class: `chip ${end.id === "rest" ? "none" : hue(end.id, end.name)}`,
          "aria-hidden": "true",
        });
      const item = make(
        "li",
        {},
        ...(chip ? [chip] : []),
        what,
        make("span", { class: "num" }, cpus(end.sum)),
      );
      item.style.top = `${end.y}px`;
      item.style.height = `${end.height}px`;
      column.append(item);
    }
    return column;
  };
  return make(
    "div",
    { class: "flow", hidden: asTable },
    make(
      "div",
      { class: "flow-heads small muted" },
      make("span", {}, "causes, CPUs"),
      make("span", {}, "is billed, CPUs"),
    ),
    make("div", { class: "flow-body" }, side(from, "from"), svg, side(to, "to")),
  );
};

const table = (flows) => {
  const rows = flows.map((f) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, label(f.from, f.from_name)),
      make("td", {}, label(f.to, f.to_name)),
      make("td", { class: "num" }, String(f.cpu)),
      make("td", { class: "num" }, cpus(f.cpus)),
    ),
  );
  const head = ["Caused by", "Billed to", "CPU", "CPUs"].map((t, i) =>
    make("th", { scope: "col", class: i > 1 ? "num" : null }, t),
  );
  const whole = make(
    "table",
    { class: "plain" },
    make("caption", { class: "visually-hidden" }, "Flows of network CPU time"),
    make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...rows),
  );
  return asTable
    ? make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Flows" }, whole)
    : make("div", { class: "visually-hidden" }, whole);
};
