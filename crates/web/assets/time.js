// Controls of the time: the range, the moment, and the return to live.
import { clock, day, make, put, when } from "./format.js";
import { RANGES, go, here, seconds } from "./place.js";

const $ = (id) => document.getElementById(id);
const NAMES = {
  "15m": "15 minutes",
  "1h": "hour",
  "6h": "6 hours",
  "24h": "24 hours",
  "7d": "7 days",
  "30d": "30 days",
};

for (const [name] of RANGES) {
  $("ranges").append(
    make(
      "button",
      {
        type: "button",
        "data-range": name,
        title: `Last ${NAMES[name]}`,
        onclick: () => go({ range: name }),
      },
      name,
    ),
  );
}

$("moment").addEventListener("change", () => {
  const at = new Date($("moment").value).getTime();
  if (Number.isFinite(at)) go({ at });
});
$("live").addEventListener("click", () => go({ at: null }));

/** Value of an input element for a local time. */
const local = (date) => `${day(date)}T${clock(date)}`;

export const showPlace = (extent) => {
  const { range, at } = here();
  const known = extent ? (Date.now() - extent[0]) / 1000 : 0;
  [...$("ranges").children].forEach((button, i) => {
    const chosen = button.dataset.range === range;
    button.setAttribute("aria-pressed", String(chosen));
    // A range beyond the known past shows nothing more.
    button.disabled = i > 0 && !chosen && known < RANGES[i - 1][1];
  });
  $("live").hidden = !at;
  if (document.activeElement !== $("moment")) $("moment").value = at ? local(new Date(at)) : "";
  if (extent) {
    $("moment").min = local(new Date(extent[0]));
    $("moment").title = `Known since ${when(new Date(extent[0]))}`;
  }
};

/** Window of the charts, in whole steps. It ends now, or a little after the moment. */
export const span = (points) => {
  const { range, at } = here();
  const length = seconds(range) * 1000;
  const step = Math.max(1000, length / points);
  const end = Math.ceil((at ? Math.min(Date.now(), at + length / 4) : Date.now()) / step) * step;
  return { from: Math.round(end - length), to: Math.round(end), step, points };
};

export const spanText = () => {
  const { range, at } = here();
  return at ? `${NAMES[range]} around ${when(new Date(at))}` : `last ${NAMES[range]}`;
};

export const showSpan = () => put($("charts-span"), spanText());
