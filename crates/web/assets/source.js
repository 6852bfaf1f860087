// Sources of the figures: a stream while the page is visible, and single documents of the past.

const AGAIN_MS = [500, 1000, 2000, 5000];
const SILENT_MS = 5000;

/** Stream of readings. Calls `frame`, `waiting` and `lost` of the handlers while it is open. */
export class Stream {
  #source = null;
  #timer = 0;
  #watch = 0;
  #tries = 0;
  #handlers;
  lost = null;

  constructor(handlers) {
    this.#handlers = handlers;
  }

  open() {
    if (this.#source) return;
    this.#source = new EventSource("api/live");
    this.#source.addEventListener("frame", (event) =>
      this.#got(() => this.#handlers.frame(JSON.parse(event.data))),
    );
    this.#source.addEventListener("waiting", (event) =>
      this.#got(() => this.#handlers.waiting(JSON.parse(event.data))),
    );
    this.#source.addEventListener("error", () => this.#lose());
    this.#expect();
  }

  close() {
    clearTimeout(this.#timer);
    clearTimeout(this.#watch);
    this.#source?.close();
    this.#source = null;
  }

  #got(handle) {
    this.#tries = 0;
    this.lost = null;
    this.#expect();
    handle();
  }

  // A dead connection can look open: reconnect after a silence.
  #expect() {
    clearTimeout(this.#watch);
    this.#watch = setTimeout(() => this.#lose(), SILENT_MS);
  }

  async #lose() {
    this.close();
    this.lost ??= new Date();
    const wait = AGAIN_MS[Math.min(this.#tries, AGAIN_MS.length - 1)];
    this.#tries += 1;
    this.#handlers.lost(this.lost, await why());
    this.#timer = setTimeout(() => this.open(), wait);
  }
}

/** Server's reason for a refused stream, which an EventSource does not report. */
const why = async () => {
  try {
    const response = await fetch("api/frame", { cache: "no-store" });
    if (response.ok || response.status === 404) return "";
    return (await response.text()).trim();
  } catch {
    return "";
  }
};

/** Fetches a document. Throws an error with the server's text. */
export const get = async (path, parameters = {}) => {
  const query = new URLSearchParams(
    Object.entries(parameters).filter(([, v]) => v !== null && v !== undefined),
  );
  const response = await fetch(`api/${path}${query.size ? `?${query}` : ""}`, {
    cache: "no-store",
  });
  if (!response.ok) throw new Error((await response.text()).trim() || `status ${response.status}`);
  return response.json();
};
