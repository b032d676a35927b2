// The layers of a program as a tree, with what each hands to others.

/** A layer and what it is in, up to the program. */
function above(layer) {
  const found = [];
  for (let at = layer; at; at = at.parent) found.push(at);
  return found;
}

/**
 * The tree of the operators `nodes`, in their order; its root is the program.
 *
 * A layer has `name`, `path`, `parent` and `children`. A layer's own operators, which are in none
 * of its children, are children too: a run of them between two of the others, whose `members` they
 * are. With `each`, every operator is a box of its own below its layer or run.
 *
 * `flows` are [source, target, bytes], by places in `nodes`, and `nameOf` says what an operator is
 * called. `begin` gives what a layer has before any operator, and `add` counts one in a layer; it
 * is called for all layers that the operator is in.
 *
 * Gives the root; `leaves`, the innermost layer of each operator; and `within`, the layers that
 * hold what belongs to a path.
 */
function layerTree({ nodes, flows, nameOf, begin, add, each = false }) {
  const make = (name, path, parent, members) => {
    const layer = {
      name, path, parent, members, children: [], operators: 0, first: Infinity, last: -1,
      open: false, flows: new Map(), ...begin(),
    };
    parent?.children.push(layer);
    return layer;
  };
  const root = make("", "", null), byPath = new Map([["", root]]);
  const layerOf = path => {
    if (byPath.has(path)) return byPath.get(path);
    const dot = path.lastIndexOf("."), parent = layerOf(path.slice(0, Math.max(dot, 0)));
    const layer = make(path.slice(dot + 1), path, parent);
    byPath.set(path, layer);
    return layer;
  };
  nodes.forEach(node => layerOf(node.layer));
  const enter = (layer, number) => {
    layer.operators += 1;
    layer.first = Math.min(layer.first, number);
    layer.last = number;
    add(layer, nodes[number]);
  };
  const inner = new Set([root, ...[...byPath.values()].filter(layer => layer.children.length)]);
  const places = nodes.map((node, number) => {
    const layer = layerOf(node.layer);
    const place = inner.has(layer) ? runOf(layer, node, nameOf(node), make) : layer;
    for (const at of above(place)) enter(at, number);
    return place;
  });
  for (const layer of byPath.values()) layer.children.sort((a, b) => a.first - b.first);
  const leaves = places.map((place, number) => {
    if (!each || (place.members && place.operators === 1)) return place;
    const leaf = make(nameOf(nodes[number]), place.path, place, new Set([nodes[number]]));
    enter(leaf, number);
    return leaf;
  });
  for (const [source, target, size] of flows)
    addFlow(above(leaves[source]), above(leaves[target]), size);
  root.open = true;
  const within = path => {
    let known = path;
    while (!byPath.has(known)) known = known.slice(0, Math.max(known.lastIndexOf("."), 0));
    return above(byPath.get(known));
  };
  return { root, leaves, within };
}

/** The run of a layer's own operators that an operator continues, or begins. */
function runOf(layer, node, name, make) {
  const last = layer.children.findLast(child => child.members);
  if (!last || last.last !== layer.last) return make(name, layer.path, layer, new Set([node]));
  last.members.add(node);
  const names = last.name.split(", ");
  if (!names.includes(name) && names.length < 3) last.name += names.length < 2 ? `, ${name}` : ", …";
  return last;
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

/** Whether an operator is in a layer. */
const holds = (layer, node) => layer.members ? layer.members.has(node)
  : node.layer === layer.path || node.layer.startsWith(`${layer.path}.`);

/** The layers that are drawn, from the top: children of those that are unfolded. */
function* visible(layer) {
  for (const child of layer.children) {
    yield child;
    if (child.open) yield* visible(child);
  }
}
