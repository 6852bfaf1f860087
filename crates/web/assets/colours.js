// Colours of containers, by name: a container has one colour in each chart, now and in the past.
export const COLOURS = 10;

const taken = new Map();

/** FNV-1a hash of a name, equal on each host and in each browser. */
const number = (name) => {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(name))
    hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
};

/** Number of the colour of `name`. Two names share a colour only if none is free. */
export const colourOf = (name) => {
  const earlier = taken.get(name);
  if (earlier !== undefined) return earlier;
  const used = new Set(taken.values());
  const first = number(name) % COLOURS;
  let colour = first;
  while (used.has(colour) && used.size < COLOURS) colour = (colour + 1) % COLOURS;
  taken.set(name, colour);
  return colour;
};

/** Gives colours to all `names`, in an order that does not depend on their current figures. */
export const nameAll = (names) => [...new Set(names)].sort().forEach(colourOf);
