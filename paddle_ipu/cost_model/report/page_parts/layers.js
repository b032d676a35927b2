// The graph of the program by layer: boxes that unfold, and what they hand to each other. Only
// what is unfolded is placed and drawn.

const BOX = { height: 40, run: 24, gap: 18, beside: 14, pad: 12, head: 24, lane: 9, across: 6 };
const MEASURES = {
  cycles: ["cycles", "forward", layer => layer.cycles],
  memory: ["memory", "stash", layer => layer.memory],
};

function layersView(report, section, nodes, showOperators) {
  const root = layerTree(report, nodes), total = Object.fromEntries(Object.entries(MEASURES)
    .map(([name, [, , of]]) => [name, of(root) || 1]));
  let by = "cycles", zoom = 1;
  let chosen = root.children.reduce((a, b) => b.cycles > a.cycles ? b : a);
  const place = h("div", {
    class: "scroll graph",
    onwheel: event => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      scale(event.deltaY < 0 ? 1.1 : 1 / 1.1);
    },
  });
  const readout = h("p", { class: "readout" }), actions = h("div", { class: "controls" });
  const draw = focused => {
    const chart = layersChart(root, by, total, zoom, { chosen: () => chosen, choose, toggle, scale });
    place.replaceChildren(chart);
    mark(focused);
  };
  const mark = focused => {
    for (const item of place.querySelectorAll("[role=treeitem]")) {
      const here = item.layer === chosen;
      item.setAttribute("tabindex", here ? 0 : -1);
      item.setAttribute("aria-selected", here);
      if (here && focused) item.focus();
    }
    readout.textContent = described(chosen, total);
    actions.replaceChildren(...chosen.children.length ? [h("button", {
      type: "button", onclick: () => toggle(chosen),
    }, chosen.open ? "fold it" : "unfold it")] : [], h("button", {
      type: "button", onclick: () => showOperators(chosen),
    }, "its operators"));
  };
  const choose = (layer, focused = true) => { chosen = layer; mark(focused); };
  const toggle = (layer, open = !layer.open, focused = true) => {
    chosen = layer;
    layer.open = open && layer.children.length > 0;
    draw(focused);
  };
  const all = open => {
    const set = layer => layer.children.forEach(child => {
      child.open = open && child.children.length > 0;
      set(child);
    });
    set(root);
    while (!open && chosen.parent !== root) chosen = chosen.parent;
    draw(false);
  };
  const button = (name, onclick) => h("button", { type: "button", onclick }, name);
  /** Draws it so many times as large; with 0, as wide as there is room. */
  const scale = (factor, focused = false) => {
    zoom = factor ? Math.min(3, Math.max(0.1, zoom * factor))
      : Math.min(1, place.clientWidth / place.firstChild.viewBox.baseVal.width);
    draw(focused);
  };
  section.append(h("div", { class: "controls" },
    choice("colour", Object.entries(MEASURES).map(([name, [label]]) => [name, label]), by, name => {
      by = name;
      draw(false);
    }),
    button("unfold all", () => all(true)), button("fold all", () => all(false)),
    button("larger", () => scale(1.25)), button("smaller", () => scale(0.8)),
    button("whole width", () => scale(0))), place, readout, actions);
  draw(false);
}

function described(layer, total) {
  const where = layer.members ? `${layer.path || "in no layer"}, ${layer.name}` : layer.path;
  const on = spans([...layer.ipus].sort((a, b) => a - b));
  const held = layer.members ? "" : `, ${bytes(layer.memory)} at the peaks (${
    percent(layer.memory / total.memory)})`;
  return `${where}: ${several(layer.operators, "operator")}, IPU ${on}, ${
    percent(layer.cycles / total.cycles)} of the cycles${held}`;
}

/** Width and height of each visible layer, and where its children are in it. */
function placed(layer) {
  const name = 7 * layer.name.length + 34;
  if (!layer.open) return Object.assign(layer, layer.members
    ? { width: name + 30, height: BOX.run } : { width: Math.max(132, name), height: BOX.height });
  const flows = flowsOf(layer), rank = new Map(), order = new Map();
  layer.children.forEach((child, at) => { placed(child); order.set(child, at); rank.set(child, 0); });
  const forth = flows.filter(x => order.get(x.source) < order.get(x.target));
  for (const child of layer.children) for (const flow of forth) if (flow.target === child)
    rank.set(child, Math.max(rank.get(child), rank.get(flow.source) + 1));
  const rows = new Map();
  for (const child of layer.children) {
    let row = rank.get(child);
    // Many that could stand side by side stand below each other instead.
    while ((rows.get(row)?.length ?? 0) >= BOX.across) row += 1e-3;
    rows.set(row, [...rows.get(row) ?? [], child]);
  }
  const lines = [...rows].sort(([a], [b]) => a - b).map(([, line]) => line);
  const line = new Map(lines.flatMap((row, at) => row.map(child => [child, at])));
  layer.links = flows.map(flow => {
    const step = line.get(flow.target) - line.get(flow.source);
    return { ...flow, kind: step === 1 ? "next" : step > 0 ? "past" : "back" };
  });
  const lanes = kind => Math.min(8, layer.links.filter(x => x.kind === kind).length);
  const left = BOX.pad + BOX.lane * lanes("back"), right = BOX.pad + BOX.lane * lanes("past");
  const wide = row => sum(row.map(child => child.width)) + BOX.beside * (row.length - 1);
  const inner = Math.max(name, ...lines.map(wide));
  let y = BOX.head + 4;
  for (const row of lines) {
    let x = left + (inner - wide(row)) / 2;
    for (const child of row) {
      Object.assign(child, { x, y });
      x += child.width + BOX.beside;
    }
    y += Math.max(...row.map(child => child.height)) + BOX.gap;
  }
  return Object.assign(layer, { width: left + inner + right, height: y - BOX.gap + BOX.pad, left });
}

/** A line between two children of a layer: down to the next row, or beside those in between. */
function link(layer, flow, lane) {
  const { source: a, target: b, kind } = flow;
  const from = [a.x + a.width / 2, a.y + a.height], to = [b.x + b.width / 2, b.y - 3];
  let d = `M${from}C${from[0]} ${from[1] + BOX.gap / 2} ${to[0]} ${to[1] - BOX.gap / 2} ${to}`;
  if (kind !== "next") {
    const side = kind === "past" ? 1 : -1, edge = x => side > 0 ? x.x + x.width : x.x;
    const out = side > 0 ? layer.width - 5 - BOX.lane * lane : 5 + BOX.lane * lane;
    const [y, end] = [a.y + Math.min(a.height, BOX.height) * 0.7, b.y + 14];
    d = `M${edge(a)} ${y}H${out}V${end}H${edge(b) + 3 * side}`;
  }
  const size = Math.min(5, 1 + Math.log10(1 + flow.size / 1e5));
  return s("path", { class: `flow ${kind}`, d, "stroke-width": size, "marker-end": "url(#arrow)" },
    title(`${a.name} to ${b.name}: ${bytes(flow.size)} of a micro-batch`));
}

function layersChart(root, by, total, zoom, on) {
  placed(root);
  const tree = s("g", { role: "tree", "aria-label": "Layers" });
  const chart = fill(canvas(root.width, root.height), {
    width: root.width * zoom, height: root.height * zoom, onkeydown: event => walk(event, root, on),
  }, [s("defs", {}, s("marker", {
    id: "arrow", viewBox: "0 0 6 6", refX: 5, refY: 3, markerWidth: 7, markerHeight: 7,
    markerUnits: "userSpaceOnUse", orient: "auto",
  }, s("path", { class: "arrow", d: "M0 0L6 3L0 6Z" }))), tree]);
  const [, paint, of] = MEASURES[by], most = Math.max(...[...visible(root)].filter(x => !x.open).map(of)) || 1;
  const add = (layer, level, x, y) => {
    const lanes = { next: 0, past: 0, back: 0 };
    // Below the boxes: what passes some is not over their names.
    const links = s("g", { transform: `translate(${x},${y})`, "aria-hidden": "true" });
    for (const flow of layer.links) links.append(link(layer, flow, lanes[flow.kind]++ % 8));
    tree.append(links);
    for (const child of layer.children) {
      tree.append(box(child, level, x + child.x, y + child.y));
      if (child.open) add(child, level + 1, x + child.x, y + child.y);
    }
  };
  const box = (layer, level, x, y) => {
    const mixed = (45 * of(layer) / most).toFixed(1);
    const item = s("g", {
      role: "treeitem", "aria-level": level, transform: `translate(${x},${y})`,
      "aria-description": described(layer, total),
      "aria-expanded": layer.children.length ? String(layer.open) : undefined,
      onclick: () => layer.children.length ? on.toggle(layer) : on.choose(layer),
    }, s("rect", {
      width: layer.width, height: layer.height, rx: 6, class: "layer",
      fill: layer.open ? "none" : `color-mix(in srgb, ${colour(paint)} ${mixed}%, var(--panel))`,
    }), s("text", { class: "name", x: layer.members ? 10 : 22, y: 17 }, layer.name));
    if (layer.children.length) item.append(s("text", { class: "name", x: 9, y: 17, "aria-hidden": "true" },
      layer.open ? "−" : "+"));
    const share = percent(layer.cycles / total.cycles);
    if (layer.members) item.append(s("text", { class: "name", x: layer.width - 8, y: 17, "text-anchor": "end" }, share));
    else if (!layer.open) item.append(
      s("text", { class: "name", x: 22, y: 33 }, `${share}, ${bytes(layer.memory)}`));
    item.layer = layer;
    return item;
  };
  add(root, 1, 0, 0);
  return chart;
}

/** The keys of a tree: up and down, right to unfold or enter, left to fold or leave. */
function walk(event, root, on) {
  const layers = [...visible(root)], now = on.chosen();
  const at = layers.indexOf(now);
  const steps = {
    ArrowDown: () => on.choose(layers[Math.min(layers.length - 1, at + 1)]),
    ArrowUp: () => on.choose(layers[Math.max(0, at - 1)]),
    Home: () => on.choose(layers[0]),
    End: () => on.choose(layers.at(-1)),
    ArrowRight: () => now.open ? on.choose(now.children[0]) : on.toggle(now, true),
    ArrowLeft: () => now.open ? on.toggle(now, false)
      : on.choose(now.parent === root ? now : now.parent),
    Enter: () => on.toggle(now),
    " ": () => on.toggle(now),
    "+": () => on.scale(1.25, true),
    "-": () => on.scale(0.8, true),
  };
  if (!(event.key in steps)) return;
  event.preventDefault();
  steps[event.key]();
}
