// Page of one container: its figures, its victims and offenders, and its promises.
import { Chart } from "./charts.js";
import { bytes, count, cpus, make, plain, plainTable, put, rate } from "./format.js";
import { go, hash, here } from "./place.js";
import { get } from "./source.js";
import { span, spanText } from "./time.js";
import { copies, sinceText } from "./verdict.js";

const root = document.getElementById("story");
const parts = {};
let shown = null;
let asked = 0;

const part = (name, title) => {
  parts[name] = make("div");
  return make(
    "section",
    { class: "card", "aria-label": title },
    make("h2", {}, title),
    parts[name],
  );
};

const build = (container) => {
  shown = container;
  const moment = (at) => go({ at: Math.round(at) });
  parts.back = make("a", { class: "back", href: hash({ container: null }) }, "← All containers");
  parts.name = make("h1", { id: "story-name", tabindex: "-1" }, "…");
  parts.where = make("p", { class: "muted small path" });
  parts.state = make("div", { class: "verdict", "data-level": "calm" });
  parts.tiles = make("dl", { class: "tiles" });
  parts.cpu = new Chart("CPU use", moment);
  parts.network = new Chart("Network work", moment);
  parts.lost = new Chart("CPU time lost", moment);
  parts.span = make("span", { class: "muted small" });
  root.replaceChildren(
    parts.back,
    parts.name,
    parts.where,
    parts.state,
    parts.tiles,
    make(
      "section",
      { class: "card", "aria-label": "Over time" },
      make("div", { class: "head" }, make("h2", {}, "Over time"), parts.span),
      make("div", { class: "three" }, parts.cpu.element, parts.network.element, parts.lost.element),
    ),
    make(
      "div",
      { class: "pair even" },
      part("suffers", "Who it pays for"),
      part("harms", "Who pays for it"),
    ),
    make(
      "div",
      { class: "pair even" },
      part("senders", "Who sends to it"),
      part("oncpu", "On each CPU"),
    ),
    make(
      "div",
      { class: "pair even" },
      part("losses", "Promised and lost"),
      part("force", "Rules in force"),
    ),
    part("latency", "What its network path adds to a packet"),
  );
};

/** Opens the page of a container, or updates it. */
export const showStory = async (container, points) => {
  if (shown !== container) build(container);
  root.hidden = false;
  parts.back.href = hash({ container: null });
  const mine = ++asked;
  const { at } = here();
  const story = await get("story", { container, at });
  if (mine !== asked || shown !== container) return;
  draw(story);
  if (points) await showSeriesOf(container, points);
};

export const hideStory = () => {
  root.hidden = true;
  shown = null;
  root.replaceChildren();
};

export const showMissing = (text) => {
  put(parts.name, "Container");
  parts.state.replaceChildren(make("p", {}, plain(text)));
};

export const showSeriesOf = async (container, points) => {
  put(parts.span, spanText());
  const { from, to } = span(points);
  const { time_ms, total } = await get("series", { from, to, points, container });
  if (shown !== container) return;
  const times = time_ms.map((ms) => ms / 1000);
  const corrected = total.cpu.map((v, i) =>
    v === null ? null : v + total.caused[i] - total.charged[i],
  );
  parts.cpu.show(times, [
    { name: "billed", colour: 0, values: total.cpu },
    { name: "corrected", colour: 2, values: corrected },
  ]);
  parts.network.show(times, [
    { name: "caused", colour: 1, values: total.caused },
    { name: "charged", colour: 3, values: total.charged },
  ]);
  parts.lost.show(times, [
    { name: "taken by others", colour: 7, values: total.taken },
    { name: "its own quota", colour: 4, values: total.throttled },
  ]);
};

const draw = (story) => {
  const row = story.row;
  put(parts.name, plain(row.name));
  put(
    parts.where,
    [
      row.pod && `pod ${plain(row.pod)}`,
      plain(row.runtime),
      plain(story.cgroup_path),
      story.host_network && "host network",
      story.runtime_id && plain(story.runtime_id).slice(0, 12),
    ]
      .filter(Boolean)
      .join(" · "),
  );
  drawState(story);
  const tile = (name, value, about) =>
    make("div", { title: about }, make("dt", {}, name), make("dd", {}, value));
  parts.tiles.replaceChildren(
    tile("CPU billed", cpus(row.cpu), "CPUs"),
    tile("Corrected", cpus(row.corrected), "billed and owed, CPUs"),
    tile(
      "Caused",
      cpus(row.caused),
      `received ${cpus(story.caused_rx)}, sent ${cpus(story.caused_tx)}, ` +
        `interrupts ${cpus(story.caused_hardirq)}`,
    ),
    tile("Charged", cpus(row.charged), "network CPU billed to it"),
    tile(row.owed < 0 ? "Pays for others" : "Owes", cpus(Math.abs(row.owed)), "CPUs"),
    tile("Lost to others", cpus(row.taken), "CPUs"),
    tile("Received", `${rate(story.rx_packets_per_s)} /s`, `${bytes(story.rx_bytes_per_s)}/s`),
    tile(
      "Sent in softirq",
      `${rate(story.tx_packets_per_s)} /s`,
      `${bytes(story.tx_bytes_per_s)}/s`,
    ),
    tile("A packet costs", story.ns_per_packet === null ? "–" : `${rate(story.ns_per_packet)} ns`),
  );
  const other = (o) => [
    o.id === null ? "packets of no container" : link(o.id, o.name),
    cpus(o.cpus),
    o.on.join(", "),
  ];
  fill(
    parts.suffers,
    ["Container", "CPUs", "on CPU"],
    story.suffers.map(other),
    "It pays for nobody.",
  );
  fill(parts.harms, ["Container", "CPUs", "on CPU"], story.harms.map(other), "Nobody pays for it.");
  fill(
    parts.senders,
    ["Container", "packets/s"],
    story.received_from.map((s) => [link(s.id, s.name), rate(s.packets_per_s)]),
    "No container of this host sends to it.",
  );
  fill(
    parts.oncpu,
    ["CPU", "caused", "charged"],
    story.by_cpu.map((c) => [`CPU ${c.cpu}`, cpus(c.caused), cpus(c.charged)]),
    "No network work.",
  );
  drawLosses(story.losses);
  drawForce(story);
  const us = (ns) => (ns === null ? "–" : `${(ns / 1000).toFixed(1)} µs`);
  const stages = (l) => l.stages_ns.map(([name, ns]) => `${name} ${us(ns)}`).join(", ");
  fill(
    parts.latency,
    ["Direction and protocol", "packets", "whole way", "of it added", "stages"],
    story.latency.map((l) => [
      `${l.direction} ${l.protocol}`,
      count(l.packets),
      us(l.total_ns),
      us(l.added_ns),
      stages(l),
    ]),
    "Not measured: [latency] histograms in the agent's configuration turns it on; " +
      "only the agent's own page shows it.",
  );
};

const link = (id, name) =>
  make("a", { href: hash({ container: id }) }, plain(name ?? "a container that is gone"));

const fill = (element, heads, rows, none) => {
  if (!rows.length) {
    element.replaceChildren(make("p", { class: "none" }, none));
    return;
  }
  element.replaceChildren(plainTable(heads, rows));
};

const drawState = (story) => {
  const finding = story.findings[0];
  const help = story.row.help;
  parts.state.dataset.level = finding ? "harm" : "calm";
  const key = JSON.stringify([
    finding?.sentence,
    finding?.for_s && Math.floor(finding.for_s / 10),
    help?.command,
    help && cpus(help.returns),
  ]);
  if (parts.state.dataset.shown === key) return;
  parts.state.dataset.shown = key;
  const command = finding?.command ?? help?.command;
  const code = command ? make("code", {}, plain(command)) : null;
  const button = command ? make("button", { type: "button" }, "Copy") : null;
  if (button) copies(button, () => code.textContent);
  const beyond =
    help?.beyond > 0 ? `; ${cpus(help.beyond)} are of no container, and no rule returns them` : "";
  const would =
    help && !help.enforced && help.offender
      ? `Enforcement would return ${cpus(help.returns)} CPUs to it ` +
        `by charging ${plain(help.offender)}${beyond}.`
      : "";
  const children = [
    make(
      "p",
      { class: "lead" },
      plain(finding?.sentence ?? "Nothing is wrong with this container."),
    ),
    finding ? make("p", { class: "muted" }, sinceText(finding)) : null,
    would ? make("p", {}, would) : null,
    code ? make("div", { class: "remedy" }, code, button) : null,
  ];
  parts.state.replaceChildren(...children.filter(Boolean));
};

const drawLosses = (l) => {
  if (!l) {
    parts.losses.replaceChildren(make("p", { class: "none" }, "Not diagnosed, or new."));
    return;
  }
  const rows = [
    [`Entitled (by ${plain(l.entitled_by)})`, cpus(l.entitled)],
    ["Got", cpus(l.got)],
    ["Lost: others ran where it waited", cpus(l.forced_sharing)],
    ["Lost: a CPU was idle while it waited", cpus(l.phantom)],
    ["Lost: its own quota", cpus(l.throttled)],
    ["Not wanted: no thread ready", cpus(l.lack)],
  ];
  fill(parts.losses, ["CPU time", "CPUs"], rows, "");
  if (l.neighbour)
    parts.losses.append(
      make("p", { class: "muted small" }, `Waits most behind ${plain(l.neighbour)}.`),
    );
};

const drawForce = (story) => {
  const m = story.managed;
  if (!m) {
    parts.force.replaceChildren(
      make(
        "p",
        { class: "none" },
        story.live ? "No rule: it is observed only." : "Not kept of the past.",
      ),
    );
    return;
  }
  const lines = [
    `network CPU: ${plain(m.network_cpu)}`,
    `CPU: ${plain(m.cpu)}${m.cpus === null ? "" : `, ${m.cpus} CPUs`}`,
  ];
  const r = m.reservation;
  if (r)
    lines.push(
      `own CPUs: ${r.own_cpus.join(", ") || "none"}` +
        (r.slice_cpu === null ? "" : `; ${cpus(r.slice_cpus)} of CPU ${r.slice_cpu}`) +
        (r.lent_cpus.length ? `; lent now: ${r.lent_cpus.join(", ")}` : ""),
    );
  if (m.network)
    lines.push(
      `debt ${(m.network.debt_ns / 1e6).toFixed(0)} ms; ` +
        `returned ${(m.network.returned_ns / 1e9).toFixed(2)} s, dropped ` +
        `${rate(m.network.dropped_rx_packets + m.network.dropped_tx_packets)} packets ` +
        "since it is enforced",
    );
  const means = (m.network?.means ?? []).map(
    (x) =>
      `${plain(x.means)}: ` +
      `${x.in_force ? "in force" : x.failed ? "failed" : "not in force"} – ${plain(x.why)}`,
  );
  const items = [...lines, ...means, ...m.degraded.map((d) => plain(d.text))].map((t) =>
    make("li", {}, t),
  );
  parts.force.replaceChildren(make("ul", { class: "plainlist" }, ...items));
};
