// Tables are made to sort by their heads' buttons, and long ones to be searched, a part of their
// rows at a time. A cell is sorted by its data-sort, else by its text. Where a table does not
// fit, each row is a card.

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
function sorts(table, then) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => {
    const sort = () => {
      const now = head.getAttribute("aria-sort");
      const up = now ? now === "descending" : !head.classList.contains("n");
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      body.append(...[...body.rows].map(row => [keyOf(row.cells[column]), row])
        .sort(([x], [y]) => byKeys(x, y, up ? 1 : -1)).map(([, row]) => row));
      then();
    };
    head.replaceChildren(h("button", { type: "button", onclick: sort }, ...head.childNodes));
  });
}

/** What hides the rows that are not asked for, with its controls. */
function searches(table, keep, others, most) {
  const body = table.tBodies[0];
  let limit = most;
  const words = h("input", { type: "search", placeholder: "words of a row" });
  const status = h("span", { role: "status", class: "soft" });
  const more = h("button", { type: "button" }, "show more");
  const texts = new Map([...body.rows].map(row => [row, row.textContent.toLowerCase()]));
  const again = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    for (const row of body.rows) {
      const fits = keep(row) && wanted.every(word => texts.get(row).includes(word));
      found += fits;
      row.hidden = !fits || found > limit;
    }
    more.hidden = found <= limit;
    status.textContent = `${whole(Math.min(found, limit))} of ${several(found, "row")}${
      found < body.rows.length ? ` found among ${whole(body.rows.length)}` : ""}`;
  };
  words.addEventListener("input", () => { limit = most; again(); });
  more.addEventListener("click", () => { limit += 10 * PAGE; again(); });
  const controls = h("div", { class: "controls" }, h("label", {}, "search ", words), others, status);
  return { again, controls, more };
}

/** Gives each cell what it needs as a part of a card: its column's name, its group, its role. */
function labelled(table) {
  const heads = [...table.tHead.rows[0].cells];
  const labels = heads.map(head => head.textContent), groups = heads.map(head => head.dataset.group);
  // As blocks the elements of a table would lose what they are.
  for (const part of [table.tHead, ...table.tBodies]) part.setAttribute("role", "rowgroup");
  table.setAttribute("role", "table");
  for (const row of table.rows) {
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
  labelled(table);
  const length = table.tBodies[0].rows.length, box = table.closest(".scroll");
  boxes.observe(box);
  if (length < 2) return () => {};
  let again = () => {};
  if (length > LONG || others.length) {
    const found = searches(table, keep, others, most);
    again = found.again;
    box.before(found.controls);
    box.after(found.more);
    again();
  }
  sorts(table, () => again());
  return again;
}
