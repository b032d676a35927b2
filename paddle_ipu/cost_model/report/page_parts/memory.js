// Memory: the fullest tile of each IPU by category, the numbers, and an IPU's largest tensors.

const LARGEST = 12;

function memoryView(report, section) {
  const { ipus } = report.memory, names = categories(report);
  section.append(keyed(names.map(name => [name, colour(CATEGORY[name] ?? "code")])));
  const most = Math.max(...ipus.map(x => Math.max(x.tile.peak, x.tile.capacity)));
  for (const ipu of ipus) section.append(tileBar(report, ipu, names, most));
  mapView(report, section);
  section.append(h("h3", {}, "Bytes of all tiles, at the peak"),
    byCategory(ipus, names, report.machine.processor.tiles));
  const tensors = h("div");
  const show = number => tensors.replaceChildren(largest(ipus.find(x => x.ipu === Number(number))));
  byLayer(report, section);
  section.append(h("h3", {}, "Largest tensors at the peak"));
  if (ipus.length > 1) section.append(h("div", { class: "controls" }, choice("of",
    ipus.map(x => [String(x.ipu), `IPU ${x.ipu}`]), String(report.memory.worst), show)));
  section.append(tensors);
  show(report.memory.worst);
}

const categories = report => Object.keys(CATEGORY).filter(name =>
  report.memory.ipus.some(x => x.categories[name]));

function tileBar(report, ipu, names, most) {
  // Code is what it is on every tile; the fullest tile has more than its share of the rest.
  const { tiles } = report.machine.processor, code = (ipu.categories.code ?? 0) / tiles;
  const others = sum(Object.entries(ipu.categories).map(([name, size]) =>
    name === "code" ? 0 : size)) || 1;
  const part = name => name === "code" ? code
    : (ipu.categories[name] ?? 0) / others * (ipu.tile.peak - code);
  const share = percent(ipu.tile.peak / ipu.tile.capacity);
  const track = h("div", { role: "img", "aria-label": `IPU ${ipu.ipu}: ${share} of ${
    bytes(ipu.tile.capacity)}; ${names.map(n => `${n} ${bytes(part(n))}`).join(", ")}` });
  Object.assign(track.style, {
    position: "relative", height: "1.35rem", background: "var(--c-wait)",
    borderRadius: "3px", overflow: "hidden", display: "flex",
  });
  for (const name of names) {
    const piece = h("div", { title: `${name}: ${bytes(part(name))} of the fullest tile` });
    Object.assign(piece.style, {
      width: `${100 * part(name) / most}%`, background: colour(CATEGORY[name]),
    });
    track.append(piece);
  }
  const limit = h("div", { title: `a tile has ${bytes(ipu.tile.capacity)}` });
  Object.assign(limit.style, {
    position: "absolute", left: `calc(${100 * ipu.tile.capacity / most}% - 2px)`, width: "2px",
    top: 0, bottom: 0, background: ipu.fits ? "var(--ink)" : "var(--bad)",
  });
  track.append(limit);
  const row = h("div", { class: "tilebar" }, h("span", {}, `IPU ${ipu.ipu}`), track,
    h("span", {}, `${bytes(ipu.tile.peak)}, ${share}`));
  if (!ipu.fits) row.lastChild.style.color = "var(--bad)";
  return row;
}

function byCategory(ipus, names, tiles) {
  const row = (name, values) => h("tr", {}, h("th", { scope: "row" }, name),
    values.map(value => cell(value, true)));
  const table = h("table", { "data-live": true },
    heads(["category", ...ipus.map(x => `#IPU ${x.ipu}`)]),
    h("tbody", {}, names.map(name => row(name, ipus.map(x => {
      const size = x.categories[name] ?? 0;
      return [bytes(size), h("span", { class: "soft share" }, percent(size / x.peak))];
    }))),
      row("all", ipus.map(x => bytes(x.peak))),
      row("a tile, on average", ipus.map(x => bytes(x.peak / tiles))),
      row("fullest tile", ipus.map(x => bytes(x.tile.peak))),
      row("of the tile", ipus.map(x => percent(x.tile.peak / x.tile.capacity)))));
  labelled(table);
  return h("div", { class: "scroll" }, table);
}

/** Bytes at the peak by layer, the numbers in its path folded. */
function byLayer(report, section) {
  const { ipus } = report.memory, all = new Map();
  for (const ipu of ipus) for (const [layer, size] of Object.entries(ipu.layers))
    all.set(layer, (all.get(layer) ?? 0) + size);
  const rows = [...all].sort((a, b) => b[1] - a[1]);
  if (!rows.some(([layer]) => layer)) return;
  section.append(h("h3", {}, "Tensors at the peak, by layer"), h("div", { class: "scroll" },
    h("table", {}, heads(["layer", ...ipus.map(x => `#IPU ${x.ipu}`)]),
      h("tbody", {}, rows.map(([layer]) => h("tr", {},
        h("td", { class: "line mono" }, layer || "in no layer"),
        ipus.map(({ layers }) => cell(layers[layer] ? bytes(layers[layer]) : "", true,
          layers[layer] ?? ""))))))));
}

function largest(ipu) {
  const table = h("table", {}, heads(["#bytes", "category", "tensor", "layer", "line"]),
    h("tbody", {}, ipu.tensors.map(held => h("tr", {}, cell(bytes(held.bytes), true, held.bytes),
      cell(held.category), h("td", { class: "line mono" }, held.name),
      h("td", { class: "line mono" }, held.layer), lineCell(held.source)))));
  const place = h("div", {}, h("div", { class: "scroll" }, table));
  live(table, { most: LARGEST });
  return place;
}
