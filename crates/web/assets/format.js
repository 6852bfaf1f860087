// Figures and names as text. Foreign text becomes text nodes here, never HTML.

const two = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** CPUs with two digits; smaller values as "<0.01". */
export const cpus = (value) => {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  if (Math.abs(value) < 0.005) return value < 0 ? ">−0.01" : "<0.01";
  return two.format(value).replace("-", "−");
};

export const count = (value) => whole.format(value);

export const rate = (value) => (value === 0 ? "0" : whole.format(value));

export const bytes = (value) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? whole.format(value) : value.toFixed(1)} ${units[unit]}`;
};

/** Duration in its two largest units. */
export const length = (seconds) => {
  const s = Math.max(0, Math.floor(seconds));
  const parts = [
    [Math.floor(s / 86400), "d"],
    [Math.floor(s / 3600) % 24, "h"],
    [Math.floor(s / 60) % 60, "min"],
    [s % 60, "s"],
  ];
  const first = parts.findIndex(([n]) => n > 0);
  if (first < 0) return "0 s";
  return parts
    .slice(first, first + 2)
    .filter(([n]) => n > 0)
    .map(([n, u]) => `${n} ${u}`)
    .join(" ");
};

const pad = (n) => String(n).padStart(2, "0");

export const clock = (date) =>
  `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;

export const day = (date) =>
  `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;

/** Time of day, with the date unless it is today. */
export const when = (date) =>
  day(date) === day(new Date()) ? clock(date) : `${day(date)} ${clock(date)}`;

/** Foreign text without characters that change the order or the look of the text around it. */
export const plain = (text) =>
  String(text ?? "").replace(
    /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    "\ufffd",
  );

/** Creates an element; its children are elements or text. */
export const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((c) => c !== null && c !== undefined));
  return element;
};

/** Table of rows. The first cell, text or an element, is the heading; others align right. */
export const plainTable = (heads, rows) => {
  const cell = (content, i) =>
    i === 0 ? make("th", { scope: "row" }, content) : make("td", { class: "num" }, content);
  const head = heads.map((h, i) => make("th", { scope: "col", class: i ? "num" : null }, h));
  return make(
    "table",
    { class: "plain" },
    make("thead", {}, make("tr", {}, ...head)),
    make("tbody", {}, ...rows.map((r) => make("tr", {}, ...r.map(cell)))),
  );
};

/** Writes text only if it changed, so that a screen reader does not repeat the old one. */
export const put = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};
