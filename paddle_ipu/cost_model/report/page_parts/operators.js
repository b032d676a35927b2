// Operators with the user's lines: a table to sort, search and group. Rows are made when needed.

const COLUMNS = [
  ["share", "of the time", true, (row, all) => percent(row.all / all)],
  ["op_type", "operator", false, row => called(row) + (row.priced ? "" : " (no cost row)")],
  ["count", "how many", true, row => whole(row.count)],
  ["layer", "layer", false, row => row.layer],
  ["source", "line", false, row => row.source],
  ["name", "name", false, row => row.name],
  ["ipu", "IPU", true, row => row.ipus],
  ["forward", "forward", true, row => whole(row.forward)],
  ["backward", "backward", true, row => whole(row.backward)],
  ["recompute", "again", true, row => whole(row.recompute)],
  ["exchange", "of it exchange", true, row => percent(row.all ? row.exchange / row.all : 0)],
  ["flops", "FLOP", true, row => row.flops ? count(row.flops) : ""],
  ["bytes", "bytes", true, row => bytes(row.bytes)],
];

/** An operator's name: Paddle's in front where it is another one. */
function called({ operator, op_type: popart }) {
  const plain = name => name.replaceAll("_", "").toLowerCase();
  return !operator || plain(operator) === plain(popart) ? popart : `${operator} (${popart})`;
}

/** A layer's path with * for its numbers: layers of a list that are built alike have one. */
const folded = layer => layer.split(".").map(part => /^\d+$/.test(part) ? "*" : part).join(".");

function nodesOf(report) {
  const { columns, rows } = report.nodes;
  return rows.map(values => {
    const row = Object.fromEntries(columns.map((name, at) => [name, values[at]]));
    row.all = row.forward + row.backward + row.recompute;
    row.count = 1;
    row.ipus = String(row.ipu);
    return row;
  });
}

function grouped(nodes, keyOf) {
  const groups = new Map();
  for (const node of nodes) {
    const layer = folded(node.layer), key = keyOf(node, layer), group = groups.get(key);
    if (!group) {
      groups.set(key, { ...node, layer, on: new Set([node.ipu]) });
      continue;
    }
    for (const name of ["count", "all", "forward", "backward", "recompute", "exchange", "flops",
      "bytes"]) group[name] += node[name];
    group.priced &&= node.priced;
    group.on.add(node.ipu);
  }
  for (const group of groups.values()) group.ipus = spans([...group.on].sort((a, b) => a - b));
  return [...groups.values()];
}

/** Numbers in ascending order as text: 0, 2–5. */
function spans(numbers) {
  const found = [];
  for (const number of numbers) {
    const last = found.at(-1);
    if (last && last[1] + 1 === number) last[1] = number;
    else found.push([number, number]);
  }
  return found.map(([a, b]) => a === b ? `${a}` : `${a}–${b}`).join(", ");
}

function operatorsView(report, section, nodes) {
  const all = sum(nodes.map(row => row.all)) || 1;
  const setsOf = rows => ({
    kind: grouped(rows, (row, layer) => `${called(row)}\n${row.source}\n${layer}`),
    layer: grouped(rows, (row, layer) => layer),
    each: rows,
  });
  let sets = setsOf(nodes);
  const hidden = { kind: ["name"], layer: ["name", "op_type", "source"], each: ["count"] };
  const layers = nodes.some(row => row.layer);
  const state = { by: "kind", sort: "share", up: false, text: "", shown: PAGE };
  const body = h("tbody"), status = h("span", { role: "status", class: "soft" });
  const more = h("button", { type: "button", onclick: () => { state.shown += 10 * PAGE; draw(); } },
    "show more");
  const value = row => state.sort === "share" ? row.all : row[state.sort];
  const order = (a, b) => {
    const x = value(a), y = value(b);
    const found = typeof x === "number" ? x - y : x.localeCompare(y, "en", { numeric: true });
    return state.up ? found : -found;
  };
  const again = nodes.some(row => row.recompute);
  const columns = () => COLUMNS.filter(([name]) =>
    !hidden[state.by].includes(name) && (again || name !== "recompute")
    && (layers || name !== "layer"));
  const head = h("tr"), within = h("span");
  /** Shows the operators of a layer only, all without one. */
  const only = layer => {
    sets = setsOf(layer ? nodes.filter(node => holds(layer, node)) : nodes);
    within.replaceChildren(...layer ? [onlyOf(layer, () => only())] : []);
    state.shown = PAGE;
    draw();
  };
  const draw = () => {
    const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = sets[state.by].filter(row => {
      const text = `${called(row)} ${row.layer} ${row.source} ${row.name} ipu${row.ipus}`.toLowerCase();
      return words.every(word => text.includes(word));
    }).sort(order);
    body.replaceChildren(...rows.slice(0, state.shown).map(row => h("tr", {},
      columns().map(([name, , number, text]) => {
        if (name === "source") return lineCell(row.source);
        const place = cell(text(row, all), number);
        if (name === "name" || name === "layer") place.className = "line mono";
        if (name === "share") {
          const bar = h("i", { class: "bar" });
          bar.style.width = `${40 * row.all / all}px`;
          place.prepend(bar);
        }
        return place;
      }))));
    labelled(body.parentNode);
    more.hidden = rows.length <= state.shown;
    status.textContent = `${whole(Math.min(rows.length, state.shown))} of ${whole(rows.length)} ${
      { kind: "kinds", layer: "layers", each: "operators" }[state.by]}, ${
      percent(sum(rows.map(row => row.all)) / all)} of the time`;
  };
  const drawHead = () => head.replaceChildren(...columns().map(([name, label, number]) => {
    const chosen = state.sort === name;
    return h("th", {
      scope: "col", class: number ? "n" : undefined,
      "aria-sort": chosen ? (state.up ? "ascending" : "descending") : undefined,
    }, h("button", {
      type: "button", "data-column": name, onclick: () => {
        state.up = chosen ? !state.up : !number;
        state.sort = name;
        drawHead();
        draw();
        head.querySelector(`[data-column=${name}]`).focus();
      },
    }, label));
  }));
  section.append(h("div", { class: "controls" },
    h("label", {}, "search ", h("input", {
      type: "search", placeholder: "operator, layer, line or name",
      oninput: event => { state.text = event.target.value; state.shown = PAGE; draw(); },
    })),
    choice("show", [["kind", "kinds by line"], ...layers ? [["layer", "layers"]] : [], ["each", "each operator"]], "kind", by => {
      state.by = by;
      state.shown = PAGE;
      if (!columns().some(([name]) => name === state.sort)) state.sort = "share";
      drawHead();
      draw();
    }), status, within),
  h("div", { class: "scroll" }, h("table", { "data-live": true },
    h("caption", {}, "Cycles of a micro-batch, on the operator's IPU"),
    h("thead", {}, head), body)), more);
  drawHead();
  draw();
  return layer => {
    only(layer);
    section.scrollIntoView();
    section.querySelector("input[type=search]").focus({ preventScroll: true });
  };
}
