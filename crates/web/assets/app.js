// Entry point of the page: shows the place in the URL, from the stream or from the past.
import { clock, plain, put, when } from "./format.js";
import { showOverview, showSeries, table } from "./overview.js";
import { go, here, seconds } from "./place.js";
import { Stream, get } from "./source.js";
import { hideStory, showMissing, showSeriesOf, showStory } from "./story.js";
import { showPlace } from "./time.js";
import { showTime } from "./verdict.js";

const $ = (id) => document.getElementById(id);
const POINTS = 300;
let extent = null;
let from = null;
let seriesDue = 0;
let turn = 0;

const state = (name, text, banner = "") => {
  document.body.dataset.state = name;
  put($("state"), text);
  put($("banner"), banner);
  $("banner").hidden = !banner;
};

/** Time between two requests for the charts, ms: one step, at most ten minutes. */
const seriesEvery = () => Math.min(600, Math.max(5, seconds(here().range) / POINTS)) * 1000;

const refreshSeries = async (force = false) => {
  if (!force && performance.now() < seriesDue) return;
  seriesDue = performance.now() + seriesEvery();
  const { container } = here();
  get("extent")
    .then((answer) => {
      extent = answer;
      showPlace(extent);
    })
    .catch(() => {});
  try {
    if (container) await showSeriesOf(container, POINTS);
    else await showSeries(POINTS);
  } catch (error) {
    if (document.body.dataset.state !== "lost") put($("charts-span"), plain(error.message));
  }
};

const show = async (frame) => {
  document.body.dataset.seen = "yes";
  if ($("host").textContent !== plain(frame.host)) put($("host"), plain(frame.host));
  showTime(frame);
  showOverview(frame);
  const { container } = here();
  const mark = frame.findings.some((f) => f.cpus !== null) ? "● " : "";
  document.title = `${mark}${plain(frame.host)} – Cofferdam`;
  if (container) {
    try {
      await showStory(container);
    } catch (error) {
      showMissing(error.message);
    }
  }
  await refreshSeries();
};

const stream = new Stream({
  frame: (frame) => {
    if (frame.error)
      state(
        "stale",
        `No news since ${clock(new Date(frame.time))}`,
        `The agent does not answer: ${plain(frame.error)}`,
      );
    else state("live", "Live");
    show(frame);
  },
  waiting: (why) =>
    state(
      "connecting",
      "Waiting",
      plain(why) === "the first reading is being taken" ? "" : plain(why),
    ),
  lost: (since, why) =>
    state(
      "lost",
      `Connection lost since ${clock(since)}`,
      why
        ? `${plain(why)}. Trying again.`
        : "The page is not served any more, or cannot be reached. Trying again.",
    ),
});

const past = async (at, mine) => {
  stream.close();
  state("past", "Past", "");
  try {
    const frame = await get("frame", { at });
    if (mine !== turn) return;
    state("past", "Past", `This is ${when(new Date(frame.time))}, not now. L goes back to live.`);
    await show(frame);
  } catch (error) {
    if (mine === turn) state("past", "Past", `${plain(error.message)}. L goes back to live.`);
  }
};

const follow = async () => {
  turn += 1;
  const mine = turn;
  const { container, at } = here();
  $("overview").hidden = Boolean(container);
  if (container !== from) {
    const back = from;
    from = container;
    if (!container) hideStory();
    scrollTo(0, 0);
    if (container) {
      try {
        await showStory(container);
      } catch (error) {
        showMissing(error.message);
      }
      if (mine !== turn) return;
      document.getElementById("story-name")?.focus({ preventScroll: true });
    } else if (back) {
      table.focus();
    }
  }
  showPlace(extent);
  if (at) await past(at, mine);
  else if (!document.hidden) stream.open();
  await refreshSeries(true);
};

addEventListener("hashchange", follow);
document.addEventListener("visibilitychange", () => {
  // A hidden page requests nothing.
  if (document.hidden) stream.close();
  else if (!here().at) {
    stream.open();
    refreshSeries(true);
  }
});
addEventListener("pagehide", () => stream.close());

$("theme").addEventListener("click", () => nextTheme());
document.addEventListener("theme", () => refreshSeries(true));
const help = $("help");
$("keys").addEventListener("click", () => help.showModal());
$("help-close").addEventListener("click", () => help.close());

const typing = () => ["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement?.tagName);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (event.key === "Escape") {
    if (document.activeElement === $("filter")) {
      $("filter").value = "";
      table.filter("");
      table.focus();
    } else if (here().container) go({ container: null });
    return;
  }
  if (typing()) return;
  const does = {
    l: () => go({ at: null }),
    "/": () => {
      if (here().container) go({ container: null });
      $("filter").focus();
    },
    t: () => table.focus(),
    d: () => nextTheme(),
    "?": () => help.showModal(),
  }[event.key.toLowerCase()];
  if (does) {
    event.preventDefault();
    does();
  }
});

follow();
