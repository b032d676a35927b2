// The layers of a program as a tree, with what each costs and what it hands to others.

/**
 * A layer. A layer's own operators, which are in none of its children, are children too: a run of
 * them between two of the others, whose `members` they are.
 */
const newLayer = (name, path, parent, members) => ({
  name, path, parent, members, children: [], cycles: 0, memory: 0, operators: 0, ipus: new Set(),
  first: Infinity, last: -1, open: false, flows: new Map(),
});

/** The tree; the root is the program. What is counted in a layer is in all above it as well. */
function layerTree(report, nodes) {
  const root = newLayer("", "", null), byPath = new Map([["", root]]);
  const layerOf = path => {
    if (byPath.has(path)) return byPath.get(path);
    const dot = path.lastIndexOf("."), parent = layerOf(path.slice(0, Math.max(dot, 0)));
    const layer = newLayer(path.slice(dot + 1), path, parent);
    parent.children.push(layer);
    byPath.set(path, layer);
    return layer;
  };
  nodes.forEach(node => layerOf(node.layer));
  const above = leaf => {
    const found = [];
    for (let at = leaf; at; at = at.parent) found.push(at);
    return found;
  };
  const inner = new Set([root, ...[...byPath.values()].filter(layer => layer.children.length)]);
  const leaves = nodes.map((node, number) => {
    const layer = layerOf(node.layer), leaf = inner.has(layer) ? runOf(layer, node) : layer;
    for (const at of above(leaf)) {
      at.cycles += node.all;
      at.operators += 1;
      at.ipus.add(node.ipu);
      at.first = Math.min(at.first, number);
      at.last = number;
    }
    return above(leaf);
  });
  // Which of a layer's tensors belong to which run of its operators is not known.
  for (const { whole_layers: held } of report.memory.ipus)
    for (const [path, size] of Object.entries(held)) {
      let known = path;
      while (!byPath.has(known)) known = known.slice(0, Math.max(known.lastIndexOf("."), 0));
      for (const layer of above(byPath.get(known))) layer.memory += size;
    }
  for (const layer of byPath.values()) layer.children.sort((a, b) => a.first - b.first);
  for (const [source, target, size] of report.flows.rows) addFlow(leaves[source], leaves[target], size);
  root.open = true;
  return root;
}

/** The run of a layer's own operators that an operator continues, or begins. */
function runOf(layer, node) {
  const name = called(node).split(" ")[0], last = layer.children.findLast(child => child.members);
  if (last && last.last === layer.last) {
    last.members.add(node);
    const names = last.name.split(", ");
    if (!names.includes(name) && names.length < 3) last.name += names.length < 2 ? `, ${name}` : ", …";
    return last;
  }
  const run = newLayer(name, layer.path, layer, new Set([node]));
  layer.children.push(run);
  return run;
}

/** Between the two children of the layer that holds both ends: the ends or what they are in. */
function addFlow(from, to, size) {
  let a = from.length - 1, b = to.length - 1;
  while (a > 0 && b > 0 && from[a - 1] === to[b - 1]) { a -= 1; b -= 1; }
  if (!a || !b) return;
  const holder = from[a], source = from[a - 1], target = to[b - 1];
  const targets = holder.flows.get(source) ?? new Map();
  targets.set(target, (targets.get(target) ?? 0) + size);
  holder.flows.set(source, targets);
}

const flowsOf = layer => [...layer.flows].flatMap(([source, targets]) =>
  [...targets].map(([target, size]) => ({ source, target, size })));

/** The layers that are drawn, from the top: children of those that are unfolded. */
function* visible(layer) {
  for (const child of layer.children) {
    yield child;
    if (child.open) yield* visible(child);
  }
}
