// The graph of the operators by layer, coloured by how far each is off.

const STEPS = 8;
const drifted = drift => drift === null ? "no gradient" : Number.isFinite(drift)
  ? drift === 0 ? "0" : drift.toExponential(1) : "infinite";

/** Operators as the page carries them. */
const operatorsOf = ({ columns, rows }) => rows.map(values => {
  const row = Object.fromEntries(columns.map((name, at) => [name, values[at]]));
  for (const name of ["drift", "gradient"]) row[name] &&= Number(row[name]);
  return row;
});

/**
 * The scale of colours, by powers of ten: up to the largest drift, or to the tolerance where all
 * are below it. `share` is 0 of no drift and 1 of the largest; `steps` are exponents.
 */
function decades(nodes, tolerance) {
  const powers = nodes.flatMap(node => [node.drift, node.gradient])
    .filter(drift => drift > 0 && Number.isFinite(drift)).map(drift => Math.ceil(Math.log10(drift)));
  const to = powers.reduce((a, b) => Math.max(a, b), Math.ceil(Math.log10(tolerance || 1e-5)));
  const from = Math.max(to - STEPS + 1, powers.reduce((a, b) => Math.min(a, b), to));
  const steps = Array.from({ length: to - from + 1 }, (_, at) => from + at);
  const share = drift => {
    if (!drift) return 0;
    const power = Math.min(to, Math.max(from, Math.ceil(Math.log10(drift))));
    return (power - from + 1) / steps.length;
  };
  return { steps, share };
}

/** What the colours and the bars mean. */
function driftKey({ steps }, paint, anyInfinite, marks) {
  const most = steps.length - 1;
  const key = keyed([["no drift", tint(paint, 0)], ...steps.map((power, at) =>
    [`up to 1e${power}${at === most && anyInfinite ? ", or infinite" : ""}`,
      tint(paint, (at + 1) / steps.length)])]);
  key.append(...marks.map(([kind, text]) => h("li", {}, h("i", { class: `bar-of ${kind}` }), text)));
  key.classList.add("drift");
  return key;
}

/** Draws it; `showOperators` gets the numbers of a layer's operators, and a button to end that. */
function driftView(data, section, showOperators) {
  const nodes = operatorsOf(data.operators), { marks, causes } = data;
  const gradients = nodes.some(node => node.gradient !== null);
  const { root, leaves } = layerTree({
    nodes, flows: data.flows, nameOf: node => node.operator, each: true,
    begin: () => ({ drift: 0, gradient: null, worst: null, marks: new Map() }),
    add: (layer, node) => {
      if (!layer.worst || node.drift > layer.worst.drift) layer.worst = node;
      layer.drift = layer.worst.drift;
      if (node.gradient !== null) layer.gradient = Math.max(layer.gradient ?? 0, node.gradient);
      if (node.mark !== null) layer.marks.set(node.mark, (layer.marks.get(node.mark) ?? 0) + 1);
    },
  });
  const marksOf = layer => [...layer.marks].sort(([a], [b]) => a - b);
  const scale = decades(nodes, data.tolerance), paint = "state";
  const first = nodes.reduce((found, node, at) => node.mark !== null && node.mark < causes
    && (found < 0 || node.mark < nodes[found].mark) ? at : found, -1);
  for (const layer of first < 0 ? [] : above(leaves[first].parent)) layer.open = true;
  const measure = (label, of) => [label, paint, () => layer => scale.share(of(layer))];
  const used = new Set(nodes.filter(node => node.mark !== null).map(node => node.mark));
  const named = (kind, wanted) => {
    const found = [...used].filter(wanted).sort((a, b) => a - b).map(mark => marks[mark]);
    return found.length ? [[kind, found.join(", ")]] : [];
  };
  layerGraph(section, root, {
    measures: {
      drift: measure("drift", layer => layer.drift),
      ...gradients ? { gradient: measure("gradient drift", layer => layer.gradient) } : {},
    },
    chosen: first < 0 ? root.children.reduce((a, b) => b.drift > a.drift ? b : a) : leaves[first],
    described: layer => {
      const [alone, { worst }] = [layer.operators === 1, layer];
      const drift = alone ? `drift ${drifted(worst.drift)} in ${worst.result}`
        : `${several(layer.operators, "operator")}, the largest drift ${drifted(worst.drift)} in ${
          worst.result}, of ${worst.operator}`;
      const gradient = layer.gradient === null ? "" : `, gradient drift ${drifted(layer.gradient)}`;
      const found = marksOf(layer).map(([mark, times]) =>
        alone ? marks[mark] : `${marks[mark]}: ${whole(times)}`);
      return `${placeOf(layer)}: ${[drift + gradient, ...found].join("; ")}`;
    },
    figures: (layer, by) => {
      const [[mark, times] = []] = marksOf(layer);
      const found = mark === undefined ? "" : `, ${marks[mark]}${times > 1 ? ` ×${times}` : ""}`;
      return `${drifted(layer[by])}${found}`;
    },
    marked: layer => {
      const [[mark] = []] = marksOf(layer);
      return mark === undefined ? "" : mark < causes ? "bad" : "mild";
    },
    carried: size => `${bytes(size)} of a micro-batch`,
    legend: driftKey(scale, paint, nodes.some(node => node.drift === Infinity || node.gradient === Infinity),
      [...named("bad", mark => mark < causes), ...named("mild", mark => mark >= causes)]),
    show: layer => showOperators(layer, new Set(nodes.filter(node => holds(layer, node))
      .map(node => String(node.number)))),
  });
}
