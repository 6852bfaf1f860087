// A colour stands for a container, by its name: the same in each chart of the page, now and in the past.
export const COLOURS = 10;

const taken = new Map();

/** FNV-1a: the same name, the same number, on each host and in each browser. */
const number = (name) => {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(name)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
};

/** The number of the colour of `name`; another's is taken only when there is no free one. */
export const colourOf = (name) => {
  const known = taken.get(name);
  if (known !== undefined) return known;
  const used = new Set(taken.values());
  const first = number(name) % COLOURS;
  let colour = first;
  while (used.has(colour) && used.size < COLOURS) colour = (colour + 1) % COLOURS;
  taken.set(name, colour);
  return colour;
};

/** Gives colours to all `names` in an order that does not depend on how large each is now. */
export const nameAll = (names) => [...new Set(names)].sort().forEach(colourOf);
