// Tables are made to sort by their heads' buttons, and long ones to be searched, a part of their
// rows at a time. A cell is sorted by its data-sort, else by its text. Where a table does not
// fit, each row is a card. Only rows that are shown are in the document.

const LONG = 10, PAGE = 30;

const keyOf = place =>
  place.dataset.sort ?? place.textContent.replace(/,(?=\d{3}\b)/g, "");

/** Numbers as numbers, texts as texts, nothing last whichever way. */
function byKeys(x, y, sign) {
  if (x === y) return 0;
  if (x === "" || y === "") return x === "" ? 1 : -1;
  const a = Number(x), b = Number(y);
  if (Number.isNaN(a) || Number.isNaN(b))
    return sign * x.localeCompare(y, "en", { numeric: true });
  return sign * (a - b);
}

/** Makes the heads of a table buttons that sort it; a column of numbers begins with the largest. */
function sorts(table, rows, then) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const sort = () => {
      const now = head.getAttribute("aria-sort");
      const up = now ? now === "descending" : !head.classList.contains("n");
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const all = rows.all(), keys = new Map(all.map(row => [row, keyOf(row.cells[column])]));
      all.sort((x, y) => byKeys(keys.get(x), keys.get(y), up ? 1 : -1));
      then();
    };
    head.replaceChildren(h("button", { type: "button", onclick: sort }, ...head.childNodes));
  });
}

/** Texts of rows that are not read yet, of tables that the page carries as text. */
const unread = new Map();

/** The tables in HTML of the page's own, in which text from the program is escaped. */
const tableIn = html => new DOMParser().parseFromString(html, "text/html").querySelector("table");

/** Puts a table in the place of its text, with as many rows as are shown first. */
function unpack(place) {
  const html = place.textContent, [begin, end] = ["<tbody>", "</tbody>"].map(x => html.indexOf(x));
  const rows = html.slice(begin, end).split(/\n(?=<tr)/).slice(1);
  const table = tableIn(html.slice(0, begin) + rows.splice(0, PAGE).join(""));
  unread.set(table, rows);
  place.replaceWith(table);
}

/** The rows of a table. What is still text is read in pieces that nobody notices, or on demand. */
function rowsOf(table) {
  const rows = [...table.tBodies[0].rows], texts = unread.get(table) ?? [];
  const read = most => {
    const html = texts.splice(0, most).join("");
    if (html) rows.push(...tableIn(`<table><tbody>${html}`).rows);
  };
  const ahead = () => {
    read(100);
    if (texts.length) setTimeout(ahead);
  };
  setTimeout(ahead);
  return {
    length: rows.length + texts.length,
    first: [...rows],
    all: () => {
      read(texts.length);
      return rows;
    },
  };
}

/** What shows the rows that are asked for, with its controls. */
function searches(table, rows, keep, others, most) {
  const box = table.closest(".scroll");
  let limit = most;
  const words = h("input", { type: "search", placeholder: "words of a row" });
  const status = h("span", { role: "status", class: "soft" });
  const more = h("button", { type: "button" }, "show more");
  const show = (fitting, found) => {
    labelled(table, fitting);
    table.tBodies[0].replaceChildren(...fitting);
    more.hidden = found <= limit;
    status.textContent = `${whole(fitting.length)} of ${several(found, "row")}${
      found < rows.length ? ` found among ${whole(rows.length)}` : ""}`;
  };
  const again = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const has = text => wanted.every(word => text.includes(word));
    const found = rows.all().filter(row =>
      keep(row) && (!wanted.length || has(row.textContent.toLowerCase())));
    show(found.slice(0, limit), found.length);
    fit(box);
  };
  words.addEventListener("input", () => { limit = most; again(); });
  more.addEventListener("click", () => { limit += 10 * PAGE; again(); });
  show(rows.first.slice(0, limit), rows.length);
  const controls = h("div", { class: "controls" }, h("label", {}, "search ", words), others, status);
  return { again, controls, more };
}

/** Gives each cell what it needs as a part of a card: its column's name, its group, its role. */
function labelled(table, rows = table.tBodies[0].rows) {
  const heads = [...table.tHead.rows[0].cells];
  const labels = heads.map(head => head.textContent), groups = heads.map(head => head.dataset.group);
  // As blocks the elements of a table would lose what they are.
  for (const part of [table.tHead, ...table.tBodies]) part.setAttribute("role", "rowgroup");
  table.setAttribute("role", "table");
  for (const row of [table.tHead.rows[0], ...rows]) {
    if (row.cells[0].hasAttribute("role")) continue;
    row.setAttribute("role", "row");
    [...row.cells].forEach((place, at) => {
      const side = place.tagName === "TH" ? "rowheader" : "cell";
      place.setAttribute("role", row.parentNode === table.tHead ? "columnheader" : side);
      place.dataset.label = labels[at];
      if (groups[at]) place.dataset.group = groups[at];
    });
  }
  return table;
}

/** Widths that tables need which are cards now. */
const needed = new WeakMap();

/** Makes cards of a table that is wider than its box; `changed` where it has other columns. */
function fit(box, changed) {
  const table = box.querySelector(":scope > table[role]");
  if (!table) return;
  if (changed || needed.get(table) <= box.clientWidth) {
    table.classList.remove("cards");
    needed.delete(table);
  }
  if (needed.has(table) || box.scrollWidth <= box.clientWidth) return;
  needed.set(table, box.scrollWidth);
  table.classList.add("cards");
}

/** Boxes that are watched; what is too wide and no table is scrolled with the keyboard, too. */
const boxes = new ResizeObserver(entries => {
  for (const { target: box } of entries) {
    fit(box);
    const wide = box.scrollWidth > box.clientWidth;
    const head = box.closest("section")?.querySelector("h2")?.textContent ?? "Part of the page";
    for (const [name, value] of [["tabindex", "0"], ["role", "group"],
      ["aria-label", `${head}, scrolls sideways`]])
      if (wide) box.setAttribute(name, value);
      else box.removeAttribute(name);
  }
});

/** Makes a table in its box live. `keep` says which rows are shown, `others` are controls. */
function live(table, { keep = () => true, others = [], most = PAGE } = {}) {
  table.dataset.live = "";
  const rows = rowsOf(table), box = table.closest(".scroll");
  boxes.observe(box);
  labelled(table, rows.length > LONG ? [] : rows.first);
  if (rows.length < 2) return () => {};
  let again = () => table.tBodies[0].append(...rows.all());
  if (rows.length > LONG || others.length) {
    const found = searches(table, rows, keep, others, most);
    again = found.again;
    box.before(found.controls);
    box.after(found.more);
  }
  sorts(table, rows, again);
  return again;
}

for (const place of document.querySelectorAll(".scroll > noscript")) unpack(place);
