// Tables of promised and lost CPU time by cause, and of the dataplanes' cores.
import { count, cpus, make, plain, plainTable, rate } from "./format.js";
import { hash } from "./place.js";

/** Table that scrolls by itself if it is wider than the page. */
const wide = (heads, rows, about) =>
  make(
    "div",
    { class: "scroll broad", tabindex: "0", role: "region", "aria-label": about },
    plainTable(heads, rows),
  );

/** Replaces the content only if it changed, and keeps the scroll position and the focus. */
const show = (element, shown, made) => {
  const key = JSON.stringify(shown);
  if (element.dataset.shown === key) return;
  element.dataset.shown = key;
  const place = element.querySelector(".scroll")?.scrollLeft ?? 0;
  const focusedHref = element.contains(document.activeElement)
    ? document.activeElement.getAttribute("href")
    : null;
  element.replaceChildren(...made());
  const region = element.querySelector(".scroll");
  if (region) region.scrollLeft = place;
  if (focusedHref) element.querySelector(`a[href="${CSS.escape(focusedHref)}"]`)?.focus();
};

const where = (r) => {
  if (!r) return "";
  const parts = [];
  if (r.own_cpus.length) parts.push(`CPU ${r.own_cpus.join(", ")}`);
  if (r.slice_cpu !== null) parts.push(`${cpus(r.slice_cpus)} of CPU ${r.slice_cpu}`);
  if (r.lent_cpus.length) parts.push(`lent now: ${r.lent_cpus.join(", ")}`);
  return parts.join("; ");
};

/** Cells of one container after its name, as text. */
const row = (p) => {
  const l = p.losses;
  const promise = p.reserved === null ? plain(l.entitled_by) : `reserved ${cpus(p.reserved)}`;
  const figure = (value) => (l ? cpus(value(l)) : "–");
  return [
    promise,
    figure((x) => x.entitled),
    figure((x) => x.got),
    figure((x) => x.forced_sharing),
    figure((x) => x.phantom),
    figure((x) => x.throttled),
    l?.neighbour ? plain(l.neighbour) : "",
    where(p.reservation),
  ];
};

export const showPromises = (frame) => {
  const element = document.getElementById("promises");
  const all = frame.promises.map((p) => [p, row(p)]);
  const total = frame.promises_total;
  show(element, [frame.diagnosed, total, all], () => {
    if (!all.length)
      return [
        make(
          "p",
          { class: "none" },
          frame.diagnosed
            ? "Nothing is reserved, and no container lost CPU time."
            : "CPU losses are not diagnosed.",
        ),
      ];
    const heads = [
      "Container",
      "promise",
      "CPUs entitled",
      "got",
      "lost: others ran",
      "lost: a CPU was idle",
      "lost: own quota",
      "waits behind",
      "own CPUs",
    ];
    const table = wide(
      heads,
      all.map(([p, text]) => [
        make("a", { href: hash({ container: p.id }) }, plain(p.name)),
        ...text,
      ]),
      "Promised and lost",
    );
    const more =
      total > all.length
        ? make(
            "p",
            { class: "muted small" },
            `${count(total - all.length)} more with smaller losses.`,
          )
        : null;
    return more ? [table, more] : [table];
  });
};

export const showDataplanes = (frame) => {
  const section = document.getElementById("dataplanes");
  section.hidden = frame.dataplanes.length === 0;
  const core = (d) => (c) => [
    `${plain(d.device)} core ${c.core}${c.cpu === null ? "" : ` (CPU ${c.cpu})`}`,
    `${Math.round(c.busy * 100)}%`,
    rate(c.received_per_s),
    rate(c.steered_in_per_s),
    rate(c.sent_per_s),
    count(c.groups),
    `${count(c.queue_delay_ns / 1000)} µs`,
  ];
  const all = frame.dataplanes.map((d) => ({
    socket: plain(d.socket),
    error: d.error && plain(d.error),
    cores: d.cores.map(core(d)),
  }));
  show(document.getElementById("cores"), all, () =>
    all.flatMap((d) => {
      if (d.error) return [make("p", { class: "none" }, d.error)];
      if (!d.cores.length)
        return [make("p", { class: "none" }, `${d.socket}: the first figures come in a second.`)];
      return [
        wide(
          [
            "Core",
            "busy",
            "packets/s in",
            "from other cores",
            "out",
            "flow groups",
            "a packet waits",
          ],
          d.cores,
          `Cores of ${d.socket}`,
        ),
      ];
    }),
  );
};
