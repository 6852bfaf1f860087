// Table of containers, sorted and filtered. Only the visible rows are in the document.
import { cpus, make, plain } from "./format.js";
import { go, hash } from "./place.js";

const ROW = 34;
const BEYOND = 8;

const help = (row) => {
  const h = row.help;
  if (!h) return row.network_cpu === "enforce" ? "is charged for its own" : "";
  if (h.enforced) return `${plain(h.offender)} is enforced already`;
  if (!h.offender) return `${cpus(h.beyond)} of no container: no rule helps`;
  return `returns ${cpus(h.returns)}: charge ${plain(h.offender)}`;
};

const COLUMNS = [
  { key: "name", title: "Name", text: true, value: (r) => r.name.toLowerCase() },
  { key: "runtime", title: "Runtime", text: true, wide: true, value: (r) => r.runtime },
  { key: "cpu", title: "CPU", about: "CPU time billed to it, CPUs", value: (r) => r.cpu },
  {
    key: "caused",
    title: "Caused",
    wide: true,
    about: "Network CPU that its packets required, CPUs",
    value: (r) => r.caused,
  },
  {
    key: "charged",
    title: "Charged",
    wide: true,
    about: "Network CPU billed to it, CPUs",
    value: (r) => r.charged,
  },
  {
    key: "owed",
    title: "Owed",
    about:
      "Caused less charged: positive, others pay for it; negative, it pays for others. " +
      "Sorted by size",
    value: (r) => Math.abs(r.owed),
  },
  {
    key: "corrected",
    title: "Corrected",
    wide: true,
    about: "Its CPU use had every packet been billed to its owner, CPUs",
    value: (r) => r.corrected,
  },
  {
    key: "taken",
    title: "Lost",
    about: "CPU time that others took from it, CPUs",
    value: (r) => r.taken ?? -1,
    show: (r) => r.taken,
  },
  {
    key: "help",
    title: "Enforcement",
    text: true,
    mid: true,
    about: "What enforcement would return to it, CPUs, and of whose packets",
    value: (r) => r.help?.returns ?? 0,
    show: help,
    down: true,
  },
];

export class Table {
  #rows = [];
  #shown = [];
  #order = { key: "owed", down: true };
  #filter = "";
  #focus = null;
  #isPointedAt = false;
  #body = make("tbody");
  #scroll;
  #heads = new Map();
  #table;
  #count;

  constructor(parent, count) {
    this.#count = count;
    const heads = COLUMNS.map((column) => {
      const button = make(
        "button",
        { type: "button", title: column.about, onclick: () => this.#sort(column) },
        column.title,
      );
      const head = make("th", { scope: "col", class: kind(column) }, button);
      this.#heads.set(column.key, head);
      return head;
    });
    this.#table = make(
      "table",
      { class: "containers" },
      make(
        "caption",
        { class: "visually-hidden" },
        "Containers, in CPUs. A heading sorts; Enter on a name opens the container.",
      ),
      make("thead", {}, make("tr", {}, ...heads)),
      this.#body,
    );
    this.#scroll = make("div", { class: "scroll rows" }, this.#table);
    this.#scroll.addEventListener("scroll", () => requestAnimationFrame(() => this.#draw()), {
      passive: true,
    });
    this.#scroll.addEventListener("pointerenter", () => {
      this.#isPointedAt = true;
    });
    this.#scroll.addEventListener("pointerleave", () => {
      this.#isPointedAt = false;
    });
    this.#body.addEventListener("keydown", (event) => this.#key(event));
    this.#body.addEventListener("click", (event) => {
      const id = event.target.closest("tr")?.dataset.id;
      if (id && !event.target.closest("a") && !String(getSelection())) go({ container: id });
    });
    new ResizeObserver(() => this.#draw()).observe(this.#scroll);
    parent.append(this.#scroll);
    this.#mark();
  }

  show(rows) {
    this.#rows = rows;
    this.#arrange(this.#isPointedAt || this.#body.contains(document.activeElement));
  }

  filter(text) {
    this.#filter = text.trim().toLowerCase();
    this.#scroll.scrollTop = 0;
    this.#arrange(false);
  }

  /** Focuses the row that had the focus last, or the first one. */
  focus() {
    const id = this.#shown.some((r) => r.id === this.#focus) ? this.#focus : this.#shown[0]?.id;
    if (id) this.#to(this.#shown.findIndex((r) => r.id === id));
  }

  #sort(column) {
    const down = this.#order.key === column.key ? !this.#order.down : (column.down ?? !column.text);
    this.#order = { key: column.key, down };
    this.#mark();
    this.#scroll.scrollTop = 0;
    this.#arrange(false);
  }

  #mark() {
    for (const [key, head] of this.#heads) {
      if (key === this.#order.key)
        head.setAttribute("aria-sort", this.#order.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  }

  /** @param {boolean} keep whether rows keep their order, because a user points at one */
  #arrange(keep) {
    const words = this.#filter.split(/\s+/).filter(Boolean);
    const has = (r) =>
      words.every((w) => `${r.name} ${r.pod ?? ""} ${r.runtime}`.toLowerCase().includes(w));
    const rows = words.length ? this.#rows.filter(has) : [...this.#rows];
    const { value } = COLUMNS.find((c) => c.key === this.#order.key);
    const sign = this.#order.down ? -1 : 1;
    const was = keep ? new Map(this.#shown.map((r, i) => [r.id, i])) : null;
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      return (x < y ? -sign : x > y ? sign : 0) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
    };
    rows.sort(
      was
        ? (a, b) => (was.get(a.id) ?? Infinity) - (was.get(b.id) ?? Infinity) || compare(a, b)
        : compare,
    );
    this.#shown = rows;
    this.#table.setAttribute("aria-rowcount", String(rows.length + 1));
    const text = words.length ? `${rows.length} of ${this.#rows.length}` : `${rows.length}`;
    if (this.#count.textContent !== text) this.#count.textContent = text;
    this.#draw();
  }

  #draw() {
    const height = this.#scroll.clientHeight || 400;
    const first = Math.max(0, Math.floor(this.#scroll.scrollTop / ROW) - BEYOND);
    const end = Math.min(this.#shown.length, first + Math.ceil(height / ROW) + 2 * BEYOND);
    const focused = this.#body.contains(document.activeElement) ? this.#focus : null;
    const old = new Map(
      [...this.#body.children].filter((r) => r.dataset.id).map((r) => [r.dataset.id, r]),
    );
    const rows = this.#shown
      .slice(first, end)
      .map((row, i) => this.#row(row, first + i, old.get(row.id)));
    if (this.#shown.length === 0) {
      const text = this.#rows.length
        ? "No container matches the filter."
        : "There is no container on this host.";
      this.#body.replaceChildren(make("tr", {}, make("td", { colspan: "4", class: "none" }, text)));
      return;
    }
    const want = [space(first * ROW), ...rows, space((this.#shown.length - end) * ROW)].filter(
      Boolean,
    );
    const now = [...this.#body.children];
    const same = now.length === want.length && want.every((w, i) => w === now[i]);
    if (!same) this.#body.replaceChildren(...want);
    if (focused && document.activeElement === document.body)
      this.#body.querySelector(`tr[data-id="${focused}"] a`)?.focus({ preventScroll: true });
    // Tab reaches one row, and the arrow keys move from there.
    const links = [...this.#body.querySelectorAll("th a")];
    const own = links.find((a) => a.closest("tr").dataset.id === this.#focus) ?? links[0];
    for (const link of links) link.tabIndex = link === own ? 0 : -1;
  }

  #row(row, index, old) {
    const tr = old ?? this.#fresh(row);
    tr.setAttribute("aria-rowindex", String(index + 2));
    tr.dataset.harm = row.owed < -0.005 ? "pays" : row.owed > 0.005 ? "owes" : "";
    const link = tr.querySelector("a");
    link.href = hash({ container: row.id });
    COLUMNS.forEach((column, i) => {
      if (column.key === "name") return;
      const shown = column.show ? column.show(row) : row[column.key];
      const text = column.text ? plain(shown) : cpus(shown);
      const cell = tr.children[i];
      if (cell.textContent !== text) cell.textContent = text;
      if (column.key === "help") cell.title = row.help?.command ? plain(row.help.command) : text;
      if (!column.text) cell.classList.toggle("zero", text === "0" || text === "–");
    });
    return tr;
  }

  #fresh(row) {
    const cells = COLUMNS.map((column) => {
      if (column.key !== "name") return make("td", { class: kind(column) });
      const link = make(
        "a",
        { href: hash({ container: row.id }), tabindex: "-1", title: plain(row.name) },
        plain(row.name),
      );
      return make(
        "th",
        { scope: "row", class: "text" },
        link,
        row.pod ? make("span", { class: "muted pod" }, ` ${plain(row.pod)}`) : null,
      );
    });
    return make("tr", { "data-id": row.id }, ...cells);
  }

  #key(event) {
    const id = event.target.closest("tr")?.dataset.id;
    const at = this.#shown.findIndex((r) => r.id === id);
    const page = Math.max(1, Math.floor(this.#scroll.clientHeight / ROW) - 2);
    const to = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: this.#shown.length - 1,
    }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    this.#to(Math.min(this.#shown.length - 1, Math.max(0, to)));
  }

  #to(index) {
    this.#focus = this.#shown[index].id;
    const head = this.#table.tHead.offsetHeight;
    const top = index * ROW;
    const { scrollTop, clientHeight } = this.#scroll;
    if (top < scrollTop) this.#scroll.scrollTop = top;
    else if (top + ROW + head > scrollTop + clientHeight)
      this.#scroll.scrollTop = top + ROW + head - clientHeight;
    this.#draw();
    this.#body.querySelector(`tr[data-id="${this.#focus}"] a`)?.focus({ preventScroll: true });
  }
}

const kind = (column) =>
  [column.text ? "text" : "num", column.wide ? "wide" : column.mid ? "mid" : ""].join(" ").trim();

const space = (height) => {
  if (height <= 0) return null;
  // No colspan: it would give a width to columns that are not displayed.
  const cell = make("td");
  cell.style.height = `${height}px`;
  return make("tr", { class: "space", "aria-hidden": "true" }, cell);
};
