// The graph of the program by layer, coloured by what each costs.

/** A measure that is shown as a share of the largest layer drawn. */
const ofLargest = (label, paint, of) => [label, paint, shown => {
  const most = shown.reduce((largest, layer) => Math.max(largest, of(layer)), 0) || 1;
  return layer => of(layer) / most;
}];

function layersView(report, section, nodes, showOperators) {
  const { root, within } = layerTree({
    nodes, flows: report.flows.rows, nameOf: node => called(node).split(" ")[0],
    begin: () => ({ cycles: 0, memory: 0, ipus: new Set() }),
    add: (layer, node) => {
      layer.cycles += node.all;
      layer.ipus.add(node.ipu);
    },
  });
  // Which of a layer's tensors belong to which run of its operators is not known.
  for (const { whole_layers: held } of report.memory.ipus)
    for (const [path, size] of Object.entries(held))
      for (const layer of within(path)) layer.memory += size;
  const cycles = layer => percent(layer.cycles / (root.cycles || 1));
  layerGraph(section, root, {
    measures: {
      cycles: ofLargest("cycles", "forward", layer => layer.cycles),
      memory: ofLargest("memory", "stash", layer => layer.memory),
    },
    chosen: root.children.reduce((a, b) => b.cycles > a.cycles ? b : a),
    described: layer => {
      const on = spans([...layer.ipus].sort((a, b) => a - b));
      const held = layer.members ? "" : `, ${bytes(layer.memory)} at the peaks (${
        percent(layer.memory / (root.memory || 1))})`;
      return `${placeOf(layer)}: ${several(layer.operators, "operator")}, IPU ${on}, ${
        cycles(layer)} of the cycles${held}`;
    },
    figures: layer => layer.members ? cycles(layer) : `${cycles(layer)}, ${bytes(layer.memory)}`,
    carried: size => `${bytes(size)} of a micro-batch`,
    show: showOperators,
  });
}
