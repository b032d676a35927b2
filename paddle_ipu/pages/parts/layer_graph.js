// The graph of a program by layer: boxes that unfold, and what they hand to each other. Only what
// is unfolded is placed and drawn.

const BOX = { height: 40, run: 24, gap: 18, beside: 14, pad: 12, head: 24, lane: 9, across: 6 };

/** The colour of a share from 0 to 1, on which text can be read. */
const tint = (paint, share) =>
  `color-mix(in srgb, ${colour(paint)} ${(45 * share).toFixed(1)}%, var(--panel))`;

/** What a layer is called in a sentence. */
const placeOf = layer => layer.members ? `${layer.path || "in no layer"}, ${layer.name}` : layer.path;

/** What shows all operators again where those of a layer are shown. */
const onlyOf = (layer, showAll) => h("button", {
  type: "button", title: "show all again", onclick: showAll,
}, `only ${layer.members ? layer.name : layer.path} ×`);

/**
 * Draws the tree of `layerTree` in a section.
 *
 * `measures`: what can be coloured: name -> [label, paint, scale]; `scale` gets the layers that are
 * drawn folded and gives the function from a layer to its share, 0 to 1.
 * `chosen`: the layer that is chosen first.
 * `described`: a layer in a sentence; `figures`: what its box has below or beside its name, by the
 * measure's name; `marked`: the class of the bar in its box, "" for none.
 * `carried`: what the bytes of a line are called. `legend`: elements before the graph.
 * `show`: shows the operators of a layer.
 */
function layerGraph(section, root, {
  measures, chosen, described, figures, marked = () => "", carried, legend = [], show,
}) {
  let [by] = Object.keys(measures), zoom = 1;
  const place = h("div", {
    class: "scroll graph",
    onwheel: event => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      scale(event.deltaY < 0 ? 1.1 : 1 / 1.1);
    },
  });
  const readout = h("p", { class: "readout" }), actions = h("div", { class: "controls" });
  const look = {
    described, marked, carried, figures: layer => figures(layer, by), measure: () => measures[by],
  };
  const draw = focused => {
    place.replaceChildren(layersChart(root, look, zoom, {
      chosen: () => chosen, choose, toggle, scale,
    }));
    mark(focused);
  };
  const mark = focused => {
    for (const item of place.querySelectorAll("[role=treeitem]")) {
      const here = item.layer === chosen;
      item.setAttribute("tabindex", here ? 0 : -1);
      item.setAttribute("aria-selected", here);
      if (here && focused) item.focus();
    }
    readout.textContent = described(chosen);
    actions.replaceChildren(...chosen.children.length ? [h("button", {
      type: "button", onclick: () => toggle(chosen),
    }, chosen.open ? "fold it" : "unfold it")] : [], h("button", {
      type: "button", onclick: () => show(chosen),
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
  const labels = Object.entries(measures).map(([name, [label]]) => [name, label]);
  section.append(h("div", { class: "controls" },
    labels.length < 2 ? [] : choice("colour", labels, by, name => {
      by = name;
      draw(false);
    }),
    button("unfold all", () => all(true)), button("fold all", () => all(false)),
    button("larger", () => scale(1.25)), button("smaller", () => scale(0.8)),
    button("whole width", () => scale(0))), legend, place, readout, actions);
  draw(false);
  reveal(place);
}

/** Scrolls the box of the graph, and not the page, until the chosen layer is in sight. */
function reveal(place) {
  const item = place.querySelector("[aria-selected=true]").getBoundingClientRect();
  const box = place.getBoundingClientRect();
  const past = (start, end, from, to) => start < from ? start - from : Math.max(0, end - to);
  place.scrollBy(past(item.left - BOX.pad, item.right + BOX.pad, box.left, box.right),
    past(item.top - BOX.pad, item.bottom + BOX.pad, box.top, box.bottom));
}

/** Width and height of each visible layer, and where its children are in it. */
function placed(layer, figures) {
  const name = 7 * layer.name.length + 34;
  if (!layer.open) {
    const beside = 6.5 * figures(layer).length;
    return Object.assign(layer, layer.members
      ? { width: name + beside, height: BOX.run }
      : { width: Math.max(132, name, beside + 34), height: BOX.height });
  }
  const flows = flowsOf(layer), rank = new Map(), order = new Map();
  layer.children.forEach((child, at) => {
    placed(child, figures);
    order.set(child, at);
    rank.set(child, 0);
  });
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
function link(layer, flow, lane, carried) {
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
    title(`${a.name} to ${b.name}: ${carried(flow.size)}`));
}

function layersChart(root, look, zoom, on) {
  placed(root, look.figures);
  const tree = s("g", { role: "tree", "aria-label": "Layers" });
  const chart = fill(canvas(root.width, root.height), {
    width: root.width * zoom, height: root.height * zoom, onkeydown: event => walk(event, root, on),
  }, [s("defs", {}, s("marker", {
    id: "arrow", viewBox: "0 0 6 6", refX: 5, refY: 3, markerWidth: 7, markerHeight: 7,
    markerUnits: "userSpaceOnUse", orient: "auto",
  }, s("path", { class: "arrow", d: "M0 0L6 3L0 6Z" }))), tree]);
  const [, paint, scale] = look.measure();
  const share = scale([...visible(root)].filter(layer => !layer.open));
  const add = (layer, level, x, y) => {
    const lanes = { next: 0, past: 0, back: 0 };
    // Below the boxes: what passes some is not over their names.
    const links = s("g", { transform: `translate(${x},${y})`, "aria-hidden": "true" });
    for (const flow of layer.links)
      links.append(link(layer, flow, lanes[flow.kind]++ % 8, look.carried));
    tree.append(links);
    for (const child of layer.children) {
      tree.append(box(child, level, x + child.x, y + child.y));
      if (child.open) add(child, level + 1, x + child.x, y + child.y);
    }
  };
  const box = (layer, level, x, y) => {
    const inner = layer.children.length > 0, kind = look.marked(layer);
    const item = s("g", {
      role: "treeitem", "aria-level": level, transform: `translate(${x},${y})`,
      "aria-description": look.described(layer),
      "aria-expanded": inner ? String(layer.open) : undefined,
      onclick: () => inner ? on.toggle(layer) : on.choose(layer),
    }, s("rect", {
      width: layer.width, height: layer.height, rx: 6, class: "layer",
      fill: layer.open ? "none" : tint(paint, share(layer)),
    }), s("text", { class: "name", x: layer.members && !inner ? 10 : 22, y: 17 }, layer.name));
    if (kind) item.append(s("rect", {
      class: `mark ${kind}`, x: 3, y: 4, width: 3, rx: 1.5,
      height: (layer.open ? BOX.head : layer.height) - 8,
    }));
    if (inner) item.append(s("text", { class: "name", x: 9, y: 17, "aria-hidden": "true" },
      layer.open ? "−" : "+"));
    if (!layer.open) item.append(s("text", layer.members
      ? { class: "name", x: layer.width - 8, y: 17, "text-anchor": "end" }
      : { class: "name", x: 22, y: 33 }, look.figures(layer)));
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
