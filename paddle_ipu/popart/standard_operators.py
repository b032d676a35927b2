"""Rewrites operators of Graphcore's domain, and of ours, with ONNX's own, for other runtimes.

Forward only: what an operator means for gradients is lost. Operators without a rule stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.op_schema import INTS
from paddle_ipu.popart.standard_rules import (
    elementwise,
    images,
    indexing,
    losses,
    network,
    onnx_forms,
    ordering,
)
from paddle_ipu.popart.standard_rules.emitter import LATER, Emitter, Rule

STANDARD = ("", "ai.onnx", LATER)

OPSET = 11
"""Of the operators that are put in; what the builder writes them with."""

LATER_OPSET = 20
"""What a model is raised to that holds an operator which ONNX got after `OPSET`."""

_FLOATS_ONLY = frozenset({"Clip", "Max", "Min", "Pow"})
"""Operators that take whole numbers only since operator set 12; PopART takes them in any."""


def _table(parts: Iterable[Mapping[tuple[str, str], Rule]]) -> dict[tuple[str, str], Rule]:
    rules: dict[tuple[str, str], Rule] = {}
    for part in parts:
        for key, rule in part.items():
            if key in rules:
                raise ValueError(f"two rules for {'.'.join(key)}")
            rules[key] = rule
    return rules


RULES: Mapping[tuple[str, str], Rule] = _table(
    part.RULES for part in (elementwise, images, indexing, losses, network, onnx_forms, ordering)
)
"""(domain, operator) -> what emits ONNX's own."""


def rewrite(model: ir.Model) -> None:
    """Puts ONNX's operators in the place of others that have a rule, in subgraphs too.

    Tensors keep their names. The shapes of what the operators take must be known.
    """
    _drop_unread(model.graph)
    _rewrite_in(model.graph)
    imports = model.graph.opset_imports
    imports.setdefault("", OPSET)
    kept = {node.domain for node in _all_nodes(model)}
    for domain in {domain for domain, _ in RULES} - kept:
        imports.pop(domain, None)


def _drop_unread(graph: ir.Graph) -> None:
    """Removes what nobody reads, so that a rule need not give the results that it is made of."""
    for node in reversed(list(graph)):
        read = any(value.uses() or value.is_graph_output() for value in node.outputs)
        if not node.domain and not read:
            graph.remove(node, safe=True)


def _rewrite_in(graph: ir.Graph) -> None:
    for node in list(graph):
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                _rewrite_in(attribute.as_graph())
        rule = RULES.get((node.domain, node.op_type))
        if rule is None:
            continue
        emit = Emitter(node)
        try:
            results = rule(emit)
        except popart_exception:
            # A shape is not known: the operator stays, and is named as what is not standard.
            continue
        if results is None:
            continue
        graph.insert_before(node, emit.made)
        for old, new in zip(node.outputs, results, strict=False):
            _take_place(graph, old, new)
        graph.remove(node, safe=True)


def _take_place(graph: ir.Graph, old: ir.Value, new: ir.Value) -> None:
    new.type, new.shape = old.type, old.shape
    for use in list(old.uses()):
        use.node.replace_input_with(use.idx, new)
    for index, output in enumerate(graph.outputs):
        if output is old:
            graph.outputs[index] = new
    new.name, old.name = old.name, f"{old.name}/before"


def not_standard(model: ir.Model) -> list[str]:
    """The operators that are not ONNX's own, or mean something else there, sorted.

    Returns:
        ``domain.Type``, with the reason in brackets where the operator itself is ONNX's.
    """
    names = set()
    for node in _all_nodes(model):
        if node.domain not in STANDARD:
            names.add(f"{node.domain}.{node.op_type}")
        elif onnx_forms.begins_behind(node):
            names.add(f"ai.onnx.{node.op_type} (a window begins behind the image)")
    return sorted(names)


def _all_nodes(model: ir.Model) -> Iterator[ir.Node]:
    return iter(ir.traversal.RecursiveGraphIterator(model.graph))


# -- later operator sets --------------------------------------------------------------------------


def raised(model: ir.Model) -> ir.Model:
    """The model at `LATER_OPSET` if it has operators that ONNX got after `OPSET`, else as it is.

    Every tensor of an input or output keeps its name. Weights are not copied.
    """
    if not any(_is_later(node) for node in _all_nodes(model)):
        return model
    import onnx

    weights = {name: value.const_value for name, value in model.graph.initializers.items()}
    model.graph.opset_imports[LATER] = 1
    proto = _without_weights(model)
    converted = ir.from_proto(onnx.version_converter.convert_version(proto, LATER_OPSET))
    for node in _all_nodes(converted):
        if node.domain == LATER:
            node.domain = ""
    graph = converted.graph
    graph.opset_imports.pop(LATER, None)
    for value in list(graph.inputs):
        if value.name in weights:
            graph.inputs.remove(value)
            value.const_value = weights[value.name]
            graph.register_initializer(value)
    converted.ir_version = onnx.helper.find_min_ir_version_for(
        [onnx.helper.make_opsetid(domain, version) for domain, version in
         graph.opset_imports.items() if not domain], True
    )  # fmt: skip
    return converted


def _is_later(node: ir.Node) -> bool:
    return node.domain == LATER or (
        node.domain == ""
        and node.op_type in _FLOATS_ONLY
        and any(value is not None and value.dtype in INTS for value in node.inputs)
    )


def _without_weights(model: ir.Model) -> Any:
    """As ONNX's converter takes it, the weights as inputs: their values do not matter to it."""
    kept = dict(model.graph.initializers)
    inputs = list(model.graph.inputs)
    given = {value.name for value in inputs}
    try:
        model.graph.initializers.clear()
        model.graph.inputs.extend(value for name, value in kept.items() if name not in given)
        return ir.to_proto(model)
    finally:
        model.graph.inputs[:] = inputs
        model.graph.initializers.update(kept)
