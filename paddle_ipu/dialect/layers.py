"""The path of the layer that each operator is in, as ``named_sublayers`` has it.

Where no operator has the path in its scope (:mod:`paddle_ipu.dialect.scopes`), Paddle's own scopes
stand for layers. Where there are none of these, the names of parameters do, which Paddle derives
from the layers that made them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.scopes import is_paddles_own, read_scope


def name_layers(graph: ir.Graph, structured: Mapping[str, str] | None = None) -> None:
    """Makes the scopes that a frontend left in ``node.meta[LAYER]`` paths of layers.

    Paths that two roots share have the root's name in front.

    Args:
        graph: with the scopes of Paddle's operators; it is changed.
        structured: parameter -> its name in the layer's ``state_dict``, where that was saved.
    """
    nodes = list(dialect.walk(graph))
    scopes = [read_scope(node.meta.get(dialect.LAYER, "")) for node in nodes]
    roots: dict[str, set[str]] = {}
    for root, path in scopes:
        if root and path:
            roots.setdefault(path, set()).add(root)
    shared = {root for owners in roots.values() if len(owners) > 1 for root in owners}
    for node, (root, path) in zip(nodes, scopes, strict=True):
        node.meta[dialect.LAYER] = f"{root}.{path}".rstrip(".") if root in shared else path
    if not any(path for _, path in scopes):
        _name_by_parameters(graph, structured or {})
    _name_blocks(graph)


def _name_blocks(graph: ir.Graph, around: str = "") -> None:
    for node in graph:
        node.meta[dialect.LAYER] = node.meta.get(dialect.LAYER) or around
        for block in dialect.blocks(node):
            _name_blocks(block, node.meta[dialect.LAYER])


def _name_by_parameters(graph: ir.Graph, structured: Mapping[str, str]) -> None:
    """An operator that reads parameters is of their layer; one between two, of what both are in."""
    forward: list[ir.Node] = []
    for node in graph:
        if node.op_type.rstrip("_").endswith("_grad"):
            break
        forward.append(node)
    own = [_layer_of_parameters(node, structured) for node in forward]
    before = _last_known(own)
    after = _last_known(own[::-1])[::-1]
    for node, around in zip(forward, zip(before, after, strict=True), strict=True):
        node.meta[dialect.LAYER] = common(around)


def _last_known(layers: Sequence[str]) -> list[str]:
    """Each layer, or the last one before it that is known."""
    known, last = [], ""
    for layer in layers:
        last = layer or last
        known.append(last)
    return known


def _layer_of_parameters(node: ir.Node, structured: Mapping[str, str]) -> str:
    layers = []
    for value in node.inputs:
        if value is not None and value.meta.get(dialect.ROLE) in (dialect.PARAMETER, dialect.STATE):
            name = str(value.name)
            layer = structured.get(name, name).rpartition(".")[0]
            if layer and not is_paddles_own(layer):
                layers.append(layer)
    return common(layers)


def common(layers: Iterable[str]) -> str:
    """The innermost layer that all of `layers` are in, or are; "" where there is none."""
    paths = [layer.split(".") for layer in layers]
    shared: list[str] = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)
