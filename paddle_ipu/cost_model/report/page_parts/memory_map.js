// A map of each IPU's memory at its peak: areas are bytes of all its tiles, by category and, of
// tensors that are known then, by layer.

/** Bytes of all tiles at which the fullest tile, which has more than its share, is full. */
function roomOf(ipu, { tiles, tile_memory: tile }) {
  const code = ipu.categories.code ?? 0, others = ipu.peak - code;
  if (!others) return tile * tiles;
  const stretch = (ipu.tile.peak - code / tiles) * tiles / others;
  return (tile - code / tiles) * tiles / stretch + code;
}

/** Parts of a rectangle with areas as their sizes, as square as may be: [part, x, y, w, h]. */
function squares(parts, x, y, w, h) {
  const left = parts.filter(part => part.size > 0).sort((a, b) => b.size - a.size), found = [];
  let rest = sum(left.map(part => part.size));
  while (left.length) {
    const short = Math.min(w, h), long = Math.max(w, h);
    // A strip along the short side takes parts as long as that makes its narrowest squarer.
    let many = 0, worst = Infinity, size = 0;
    while (many < left.length) {
      const next = size + left[many].size, deep = long * next / rest;
      const small = short * left[many].size / next, large = short * left[0].size / next;
      const ratio = Math.max(deep / small, large / deep);
      if (ratio > worst) break;
      [worst, size] = [ratio, next];
      many += 1;
    }
    const deep = long * size / rest;
    let along = 0;
    for (const part of left.splice(0, many)) {
      const wide = short * part.size / size;
      found.push(w >= h ? [part, x, y + along, deep, wide] : [part, x + along, y, wide, deep]);
      along += wide;
    }
    if (w >= h) { x += deep; w -= deep; } else { y += deep; h -= deep; }
    rest -= size;
  }
  return found;
}

/** What a category's area holds: its layers where they are known, else itself. */
function partsOf(ipu, category) {
  const size = ipu.categories[category] ?? 0, layers = Object.entries(ipu.category_layers[category] ?? {});
  const rest = size - sum(layers.map(([, held]) => held));
  return [...layers.map(([layer, held]) => ({ category, layer, size: held })),
    ...rest > 0 ? [{ category, layer: null, size: rest }] : []];
}

function memoryMap(report, width, readout) {
  const { ipus } = report.memory, { processor } = report.machine, gap = 18, head = 20;
  const columns = Math.max(1, Math.min(ipus.length, Math.floor((width + gap) / (250 + gap))));
  const side = Math.min(420, (width - gap * (columns - 1)) / columns);
  const rooms = ipus.map(ipu => roomOf(ipu, processor));
  const most = Math.max(...rooms, ...ipus.map(ipu => ipu.peak));
  const chart = canvas(columns * (side + gap) - gap, Math.ceil(ipus.length / columns) * (side + head + gap));
  const cells = [];
  ipus.forEach((ipu, number) => {
    const x = number % columns * (side + gap), y = Math.floor(number / columns) * (side + head + gap) + head;
    const edge = size => side * Math.sqrt(Math.max(0, size) / most), room = edge(rooms[number]);
    chart.append(
      s("text", { class: "ink", x, y: y - 6 }, `IPU ${ipu.ipu}: ${bytes(ipu.peak)}`),
      s("rect", { class: "wait", x, y, width: room, height: room }));
    const groups = categories(report).map(name => ({ name, size: ipu.categories[name] ?? 0 }));
    for (const [group, gx, gy, gw, gh] of squares(groups, x, y, edge(ipu.peak), edge(ipu.peak))) {
      for (const [part, px, py, pw, ph] of squares(partsOf(ipu, group.name), gx, gy, gw, gh)) {
        const mark = s("rect", {
          class: "cell", x: px, y: py, width: pw, height: ph, fill: colour(CATEGORY[group.name]),
        });
        chart.append(mark);
        cells.push({ ...part, ipu, mark });
      }
      if (gw > 7 * group.name.length && gh > 18) chart.append(
        s("text", { class: "ink", x: gx + 5, y: gy + 14, "pointer-events": "none" }, group.name));
    }
    chart.append(s("rect", { class: ipu.fits ? "room" : "limit", x, y, width: room, height: room }));
  });
  const text = at => {
    const { ipu, category, layer, size } = cells[at];
    const of = layer === null ? "" : `, ${layer || "in no layer"}`;
    return `IPU ${ipu.ipu}, ${category}${of}: ${bytes(size)}, ${percent(size / ipu.peak)} of its peak`;
  };
  if (!cells.length) return h("p", {}, "Nothing is in memory.");
  const choose = slider(chart, "What fills the IPUs", cells.length, text, (at, silent) => {
    chart.querySelector(".chosen")?.classList.remove("chosen");
    if (!silent) cells[at].mark.classList.add("chosen");
    readout.textContent = silent ? "The arrow keys, or the pointer, tell what each area is." : text(at);
  });
  cells.forEach(({ mark }, at) => mark.addEventListener("pointerenter", () => choose(at)));
  choose(0, true);
  return chart;
}

const NO_TILES = "There is no map of single tiles: only Poplar decides, when it compiles for the "
  + "hardware, which tile holds what. The prediction is of each IPU, with its tiles evenly filled; "
  + "the fullest one is taken to hold ";

function mapView(report, section) {
  const readout = h("p", { class: "readout" });
  const { place } = drawing((into, width) => into.replaceChildren(memoryMap(report, width, readout)));
  section.append(h("h3", {}, "What fills each IPU at its peak"), h("p", { class: "lead" },
    "Areas are bytes of all tiles, by category and, of weights, optimizer state, accumulators and "
    + "the stash, by layer; the square is what fits. ", NO_TILES,
    h("a", { href: "#figure-tile_imbalance" }, `${report.constants.tile_imbalance} times the mean`),
    "."), place, readout);
}
