// Place that the page shows, in the part of the URL after '#': a container, a range, a moment.

export const RANGES = [
  ["15m", 15 * 60],
  ["1h", 3600],
  ["6h", 6 * 3600],
  ["24h", 86400],
  ["7d", 7 * 86400],
  ["30d", 30 * 86400],
];

/** @returns {{container: string|null, range: string, at: number|null}} */
export const here = () => {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const parameters = new URLSearchParams(query);
  const container = /^\/container\/(\d{1,20})$/.exec(path)?.[1] ?? null;
  const range = parameters.get("range");
  const at = Number(parameters.get("at"));
  return {
    container,
    range: RANGES.some(([name]) => name === range) ? range : "15m",
    at: Number.isSafeInteger(at) && at > 0 ? at : null,
  };
};

export const seconds = (range) => RANGES.find(([name]) => name === range)[1];

/** Hash of the current place with the changes applied. */
export const hash = (change) => {
  const place = { ...here(), ...change };
  const query = new URLSearchParams();
  if (place.range !== "15m") query.set("range", place.range);
  if (place.at) query.set("at", String(place.at));
  const path = place.container ? `/container/${place.container}` : "/";
  return `#${path}${query.size ? `?${query}` : ""}`;
};

export const go = (change) => {
  location.hash = hash(change);
};
