// Overview of the host: verdict, transfers, series, containers, CPUs.
import { Chart } from "./charts.js";
import { nameAll } from "./colours.js";
import { showFlow } from "./flow.js";
import { bytes, cpus, length, make, plain, put } from "./format.js";
import { go } from "./place.js";
import { showDataplanes, showPromises } from "./promises.js";
import { get } from "./source.js";
import { Table } from "./table.js";
import { showSpan, span } from "./time.js";
import { showVerdict } from "./verdict.js";

const $ = (id) => document.getElementById(id);
const moment = (at) => go({ at: Math.round(at) });
const charts = {
  payers: new Chart("Paid for others", moment),
  causers: new Chart("Network work caused", moment),
  losers: new Chart("CPU time taken by others", moment),
};
$("charts").append(...Object.values(charts).map((c) => c.element));

export const table = new Table($("table"), $("count"));
$("filter").addEventListener("input", () => table.filter($("filter").value));

export const showOverview = (frame) => {
  showVerdict(frame);
  showFlow(frame);
  table.show(frame.containers);
  showPromises(frame);
  showDataplanes(frame);
  showCpus(frame);
  showAgent(frame.agent);
};

export const showSeries = async (points) => {
  showSpan();
  const { from, to } = span(points);
  const series = await get("series", { from, to, points });
  const times = series.time_ms.map((ms) => ms / 1000);
  nameAll(Object.keys(charts).flatMap((key) => series[key].map((line) => line.name)));
  for (const [key, chart] of Object.entries(charts)) chart.show(times, series[key]);
};

const showCpus = (frame) => {
  const bars = frame.cpus.map((c) => {
    const share = Math.min(1, c.network);
    const fill = make("span", { class: "fill" });
    fill.style.width = `${(share * 100).toFixed(1)}%`;
    return make(
      "div",
      { class: "cpu" },
      make("span", {}, `CPU ${c.cpu}`),
      make("span", { class: "track", "aria-hidden": "true" }, fill),
      make("span", { class: "num" }, `${Math.round(share * 100)}%`),
    );
  });
  $("cpus").replaceChildren(
    make("p", { class: "muted small" }, "Network work, share of each CPU"),
    ...bars,
  );
};

const showAgent = (agent) => {
  if (!agent) return put($("agent"), "Of the past the agent keeps no state of its own.");
  // A rate needs an interval: in the first minute, the start is most of it.
  const own =
    agent.uptime_s >= 60
      ? ` · ${((agent.cpu_s / agent.uptime_s) * 100).toFixed(2)}% of a CPU since its start`
      : ` · ${agent.cpu_s.toFixed(2)} s of CPU time since its start`;
  put(
    $("agent"),
    `Agent ${plain(agent.version)}, running for ${length(agent.uptime_s)}${own} · ` +
      `${bytes(agent.resident_bytes)} · ` +
      `${cpus(agent.changes_in_force)} changes to the host in force`,
  );
};
